package slurm_test

import (
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"gresnet/lib/slurm"
)

func conf(t *testing.T, text string) slurm.Conf {
	t.Helper()
	c, err := slurm.Read(fstest.MapFS{"etc/x.conf": {Data: []byte(text)}}, "/etc/x.conf")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDevicesAreThoseOfTheNodeInTheFilesOrder(t *testing.T) {
	c := conf(t, `Name=gpu File=/dev/nvidia[0-1]
NodeName=n[1-2] Name=nic Type=hdr File=/gres/nic[2,0-1]
Name=nic File=/gres/h[08-10]x
NodeName=n3 Name=nic Count=9
Name=nic File=/gres/a,/gres/b
Name=nic Count=2
Name=nic
`)
	got, err := c.Devices("n1", "nic")
	want := []slurm.Device{
		{Type: "hdr", File: "/gres/nic2"}, {Type: "hdr", File: "/gres/nic0"}, {Type: "hdr", File: "/gres/nic1"},
		{File: "/gres/h08x"}, {File: "/gres/h09x"}, {File: "/gres/h10x"}, {File: "/gres/a"}, {File: "/gres/b"}, {}, {}, {},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"Name=nic Count=many\n":              `/etc/x.conf:1: "many" is no count`,
		"\nName=nic File=/gres/nic[0-1\n":    `/etc/x.conf:2: "/gres/nic[0-1" is no list of files that this program can read`,
		"Name=nic NodeName=n[1 File=/gres\n": `/etc/x.conf:1: `,
	} {
		if _, err := conf(t, text).Devices("n1", "nic"); err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestTheFilesInAFolderAreThoseOfAllNodesAndGRES(t *testing.T) {
	c := conf(t, `Name=gpu File=/dev/nvidia[0-1]
NodeName=n[1-2] Name=nic Type=hdr File=/gres/nic[0-1]
NodeName=n3 Name=nic File=/gres/nic[1-2],/gres/x
Name=nic File=/gres/nic[4
Name=nic File=/gres/../etc/passwd,/gres/more/nic9,gres/nic8
Name=nic Count=9
Name=opa File=/gres/more/../opa0,/dev/x
`)
	want := []string{"nic0", "nic1", "opa0"}
	if got := c.FilesIn("/gres"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatSlurmConfPromisesOfAGRESIsAddedUp(t *testing.T) {
	for text, want := range map[string]int{
		"NodeName=n1 Gres=nic:4\n":                                   4,
		"NodeName=n1 Gres=gpu:8(S:0-1),nic:hdr:2(S:0),nic:ndr,nic\n": 4,
		"NodeName=DEFAULT Gres=nic:3\nNodeName=n[1-9]\n":             3,
		"NodeName=DEFAULT Gres=nic:3\nNodeName=n1 Gres=gpu:1\n":      0,
		"NodeName=n1\n":              0,
		"NodeName=n1 Gres=nic:2K\n":  -1,
		"NodeName=n2 Gres=nic:2\n":   -1,
		"NodeName=n[1 Gres=nic:2\n":  -1,
		"PartitionName=p Nodes=n1\n": -1,
	} {
		count, is := conf(t, text).Promised("n1", "nic")
		if !is {
			count = -1
		}
		if count != want {
			t.Errorf("%q promises %d, want %d", text, count, want)
		}
	}
}

func TestTypesOfAGRESAreInTheOrderOfSlurmConf(t *testing.T) {
	for text, want := range map[string][]string{
		"NodeName=n1 Gres=gpu:a100:8(S:0-1),nic:vf:2(S:0),nic:whole,nic:vf:1,gpu:h100:1,nic:4\n": {"vf", "whole", ""},
		"NodeName=n1 Gres=nic:no_consume:4\n":                                                    {""},
		"NodeName=n2 Gres=nic:vf:2\n":                                                            nil,
	} {
		if types := conf(t, text).Types("n1", "nic"); !slices.Equal(types, want) {
			t.Errorf("%q has the types %q, want %q", text, types, want)
		}
	}
}

func TestPlugstackThatIncludesItselfEnds(t *testing.T) {
	root := fstest.MapFS{"etc/plugstack.conf": {Data: []byte("include /etc/plugstack.conf\n")}}
	const want = "read /etc/plugstack.conf: files include one another more than 8 deep"
	if _, err := slurm.ReadPlugstack(root, "/etc/plugstack.conf"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
