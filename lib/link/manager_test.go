package link_test

import (
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/kernel/proc"
	"gresnet/lib/link"
)

func TestOfBelievesOnlyWhatItUnderstands(t *testing.T) {
	const networkd, networkManager = "systemd/netif/links/7", "NetworkManager/devices/7"
	connections := map[string]string{
		"ib0":  "[connection]\nid=ib0\nuuid=fe618be8\ntype=infiniband\n\n[.nmmeta]\nnm-generated=true\nvolatile=true\nexternal=true\n",
		"mine": "[connection]\nid=mine\nuuid=7fa05b9c\n\n[.nmmeta]\nnm-generated=true\n",
	}
	tests := []struct {
		name       string
		path, text string
		want       string
		configured bool
	}{
		{"networkd has configured it", networkd, "# This is private data. Do not parse.\nADMIN_STATE=configured\nOPER_STATE=routable\n", link.Networkd, true},
		{"networkd is at it", networkd, "ADMIN_STATE=configuring\n", link.Networkd, false},
		{"networkd has only seen it", networkd, "ADMIN_STATE=pending\n", link.Networkd, false},
		{"networkd failed", networkd, "ADMIN_STATE=failed\n", link.Networkd, false},
		{"networkd leaves it alone", networkd, "ADMIN_STATE=unmanaged\n", "", false},
		{"networkd says nothing", networkd, "", "", false},
		{"networkd says something else", networkd, "ADMIN_STATE=perfect\n", "", false},
		{"networkd says two things", networkd, "ADMIN_STATE=configured\nADMIN_STATE=unmanaged\n", "", false},
		{"networkd says it of another key", networkd, "MY_ADMIN_STATE=configured\n", "", false},
		{"networkd says it of another interface", "systemd/netif/links/77", "ADMIN_STATE=configured\n", "", false},
		{"NetworkManager has a connection active", networkManager, "[device]\nmanaged=true\nconnection-uuid=2b1a1a4e-8e2b-4b1c-9a53-0d6f6f2a7c11\n", link.NetworkManager, true},
		{"NetworkManager has no connection active", networkManager, "[device]\nmanaged=true\nnm-owned=false\n", link.NetworkManager, false},
		{"NetworkManager leaves it alone", networkManager, "[device]\nmanaged=false\n", "", false},
		{"NetworkManager does not know", networkManager, "[device]\nperm-hw-addr-fake=02:00:00:00:00:01\n", "", false},
		{"NetworkManager says it in another section", networkManager, "[main]\nmanaged=true\n", "", false},
		{"NetworkManager says it in no section", networkManager, "managed=true\n", "", false},
		{"NetworkManager sees what others gave it", networkManager, "[device]\nmanaged=true\nconnection-uuid=fe618be8\n", "", false},
		{"NetworkManager has another connection active", networkManager, "[device]\nmanaged=true\nconnection-uuid=72ce7145\n", link.NetworkManager, true},
		{"NetworkManager has a connection active that is in memory alone", networkManager, "[device]\nmanaged=true\nconnection-uuid=7fa05b9c\n", link.NetworkManager, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			said := time.Now().Add(-time.Minute)
			run := fstest.MapFS{tt.path: {Data: []byte(tt.text), ModTime: said}}
			for name, text := range connections {
				run["NetworkManager/system-connections/"+name+".nmconnection"] = &fstest.MapFile{Data: []byte(text)}
			}
			m, err := link.ManagerOf(run, 7)
			if err != nil {
				t.Fatal(err)
			}
			want := link.Manager{Name: tt.want, Configured: tt.configured}
			if tt.want != "" {
				want.Said = said
			}
			if m != want {
				t.Errorf("got %+v, wanted %+v", m, want)
			}
		})
	}
}

func TestWhatAManagerSaidBeforeTheInterfaceLeftIsOld(t *testing.T) {
	taken := proc.SinceBoot()
	if (link.Manager{Said: time.Now().Add(-time.Hour)}).After(taken) {
		t.Error("what was said an hour before counts as said after")
	}
	if !(link.Manager{Said: time.Now().Add(time.Hour)}).After(taken) {
		t.Error("what was said an hour later counts as said before")
	}
}
