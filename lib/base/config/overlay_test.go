package config_test

import (
	"reflect"
	"testing"

	"gresnet/lib/base/config"
)

func TestAnOverlayIsWhatTheSiteWrites(t *testing.T) {
	want := config.Overlay{Kind: "vxlan", Port: 500, Interface: "net0", Services: []int{22, 8080}}
	got, err := config.Parse([]byte("[overlay]\nport = 500\nname = \"net0\"\nservices = [22, 8080]\n"), "f")
	if err != nil || !reflect.DeepEqual(got.Overlay, want) || !got.Overlay.On() {
		t.Errorf("got %+v, %v, want %+v", got.Overlay, err, want)
	}
	if named, err := config.Parse([]byte("[overlay]\nunderlay = \"{node}-ib0\"\nname = \"net0\"\n[uplink]\nname = \"eth0\"\n"), "f"); err != nil || named.Overlay.Host("node7") != "node7-ib0" || named.Overlay.Interface != "net0" || named.Uplink.Name != "eth0" {
		t.Errorf("named %q and %q, %v", named.Overlay.Interface, named.Uplink.Name, err)
	}
	if off, err := config.Parse([]byte("[overlay]\nkind = \"none\"\n"), "f"); err != nil || off.Overlay.On() {
		t.Errorf("got %+v, %v, want none", off.Overlay, err)
	}
}

func TestErrorsOfAnOverlaySayWhatToDo(t *testing.T) {
	refuses(t, []mistake{
		{"unknown kind", "[overlay]\nkind = \"geneve\"\n", `f:2: overlay.kind: "geneve" is not one of "none", "vxlan"`, "correct line 2 of f"},
		{"unknown key", "[overlay]\nprot = 489\n", `f:2: unknown key "overlay.prot"`, `is "overlay.port" meant?`},
		{"a user's port", "[overlay]\nport = 4789\n", "f:2: overlay.port: 4789 is not from 1 to 1023", "take one that root alone can bind: a user who has it would keep jobs from their networks"},
		{"no port", "[overlay]\nport = \"vxlan\"\n", "f:2: overlay.port: is not a number", "correct line 2 of f"},
		{"a name too long", "[overlay]\nname = \"jobs-own-network\"\n", `f:2: overlay.name: "jobs-own-network" cannot be the name of an interface`, `take a name like "eth0"`},
		{"a service that is none", "[overlay]\nservices = [0]\n", "f:2: overlay.services: 0 is not a port from 1 to 65535", "correct line 2 of f"},
		{"a service twice", "[overlay]\nservices = [22, 22]\n", "f:2: overlay.services: 22 is there twice", "correct line 2 of f"},
		{"a service by name", "[overlay]\nservices = [\"ssh\"]\n", "f:2: overlay.services: is not a list of numbers", "correct line 2 of f"},
		{"an underlay of one node", "[overlay]\nunderlay = \"ib0\"\n", `f:2: overlay.underlay: "ib0" is not the name of a host with {node} once in it`, `write it like "{node}-ib0"`},
		{"an underlay of two", "[overlay]\nunderlay = \"{node}-{node}\"\n", `f:2: overlay.underlay: "{node}-{node}" is not the name of a host with {node} once in it`, `write it like "{node}-ib0"`},
		{"the loopback", "[overlay]\nname = \"lo\"\n", `f:2: overlay.name: "lo" is another interface of the job's`, `take a name like "eth0"`},
		{"the uplink's name", "[overlay]\nname = \"uplink0\"\n[uplink]\nkind = \"auto\"\n", `f:2: overlay.name: "uplink0" is the name of both the uplink and the overlay`, "give each a name of its own"},
	})
}
