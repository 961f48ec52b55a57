package slurm_test

import (
	"reflect"
	"slices"
	"strings"
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
Name=nic Type=ndr File=/gres/h[08-10]x
NodeName=n3 Name=nic Count=9
Name=nic Type=ndr File=/gres/a,/gres/b
Name=opa Type=a Count=2
Name=opa Type=b
`)
	got, err := c.Devices("n1", "nic")
	want := []slurm.Device{
		{Type: "ndr", File: "/gres/h08x"}, {Type: "ndr", File: "/gres/h09x"}, {Type: "ndr", File: "/gres/h10x"}, {Type: "ndr", File: "/gres/a"}, {Type: "ndr", File: "/gres/b"},
		{Type: "hdr", File: "/gres/nic2"}, {Type: "hdr", File: "/gres/nic0"}, {Type: "hdr", File: "/gres/nic1"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := c.Devices("n1", "opa"); err != nil || !reflect.DeepEqual(got, []slurm.Device{{Type: "a"}, {Type: "a"}, {Type: "b"}}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"Name=nic File=/a\nName=nic Count=2\n":            `/etc/x.conf:2: it has files, and another line of the GRES none, or the other way round`,
		"Name=nic Count=2\nNAME=NIC Type=hdr Count=1\n":   `/etc/x.conf:2: it has a type, and another line of the GRES none, or the other way round`,
		"Name=nic Count=2\nName=nic Count=1\n":            `/etc/x.conf:2: another line of the GRES has neither a file nor a type, as this one`,
		"Name=nic File=/b,/a1,/a1\n":                      `/etc/x.conf:1: it has /a1 twice`,
		"Name=nic File=/a[0-1]\nName=nic File=/b,/a1\n":   `/etc/x.conf:2: another line of the GRES has /a1, too`,
		"Name=nic Count=many\n":                           `/etc/x.conf:1: "many" is no count`,
		"\nName=nic File=/gres/nic[0-1\n":                 `/etc/x.conf:2: parse hostlist "/gres/nic[0-1": "/gres/nic[0-1" has no closing bracket`,
		"NodeName=n[1 Name=nic File=/gres\n":              `/etc/x.conf:1: parse hostlist "n[1": "n[1" has no closing bracket`,
		"Name=nic NodeName=n1 File=/gres\n":               `/etc/x.conf:1: a line of name has no nodename`,
		"Name=nic Count=3 File=/gres/[0-1]\n":             `/etc/x.conf:1: key Count says 3, the files are 2`,
		"Name=nic File=/gres/a MultipleFiles=/gres/[0-1]": `/etc/x.conf:1: it has both File and MultipleFiles`,
		"Name=nic MultipleFiles=/gres/a":                  `/etc/x.conf:1: MultipleFiles has one file`,
	} {
		if _, err := conf(t, text).Devices("n1", "nic"); err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestFilesAndCasesAreThoseThatSlurmTakes(t *testing.T) {
	for text, want := range map[string][]slurm.Device{
		"Name=nic Files=/gres/a,/gres/b\n":                          {{File: "/gres/a"}, {File: "/gres/b"}},
		"Name=NIC type=HDR FILE=/gres/a\n":                          {{Type: "HDR", File: "/gres/a"}},
		"Name=nic File=/gres/x[0-1],/gres/y[2-3]\n":                 {{File: "/gres/x0"}, {File: "/gres/x1"}, {File: "/gres/y2"}, {File: "/gres/y3"}},
		"Name=nic MultipleFiles=/dev/uverbs[0-1]\n":                 {{File: "/dev/uverbs0", More: []string{"/dev/uverbs1"}}},
		"Name=gpu File=/dev/nvidia0 \\ \n # nics\nName=nic File=/a": {{File: "/a"}},
		"NodeName=n1 Name=gpu \\ \n Name=nic File=/a":               {{File: "/a"}}, // the last name of a node's line
	} {
		if got, err := conf(t, text).Devices("n1", "nic"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	// A line of a gpu that goes on into that of a nic is one of a gpu.
	c := conf(t, "Name=gpu File=/dev/nvidia0 \\ \nName=nic File=/a")
	nics, _ := c.Devices("n1", "nic")
	if got, err := c.Devices("n1", "gpu"); err != nil || nics != nil || !reflect.DeepEqual(got, []slurm.Device{{File: "/a"}}) {
		t.Errorf("a gpu's line that goes on: gpus %+v, nics %+v, %v", got, nics, err)
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
	want := []string{"nic0", "nic1", "nic2", "x", "opa0"}
	if got := c.FilesIn("/gres"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatSlurmConfPromisesOfAGRESIsAddedUp(t *testing.T) {
	for text, want := range map[string]int{
		"NodeName=n1 Gres=nic:4\n":                                     4,
		"NodeName=n1 Gres=gpu:8(S:0-1),nic:hdr:2(S:0),nic:ndr,nic:1\n": 4,
		"NodeName=n1 Gres=gpu:8,nic:hdr:2,nic\n":                       1, // Slurm looks no further
		"NodeName=DEFAULT Gres=nic:3\nNodeName=n1 Gres=\"\"\n":         0,
		"NodeName=n1 Gres=NIC:4\n":                                     0, // no plugin has that name

		"NodeName=DEFAULT Gres=nic:3\nNodeName=n[1-9]\n":        3,
		"NodeName=DEFAULT Gres=nic:3\nNodeName=n1 Gres=gpu:1\n": 0,
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
		"NodeName=n1 Gres=nic:no_consume:4,nic:1g.5gb:2\n":                                       {"", "1g.5gb"},
		"NodeName=n2 Gres=nic:vf:2\n":                                                            nil,
	} {
		if types := conf(t, text).Types("n1", "nic"); !slices.Equal(types, want) {
			t.Errorf("%q has the types %q, want %q", text, types, want)
		}
	}
}

func TestPlugstackThatIncludesItselfEnds(t *testing.T) {
	root := fstest.MapFS{"etc/plugstack.conf": {Data: []byte("include /etc/plugstack.conf\n")}}
	const want = "read /etc/plugstack.conf: files include one another more than 16 deep"
	if _, err := slurm.ReadPlugstack(root, "/etc/plugstack.conf"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Only what follows the last colon is a count, and Slurm numbers devices by the types in slurm.conf.
func TestTypesThatLookLikeNumbersAreTypes(t *testing.T) {
	for _, c := range []struct{ gres, promised, name, want string }{
		{"Name=gpu Type=2080 File=/dev/nvidia[0-1]\nName=gpu Type=3090 File=/dev/nvidia[2-3]\n", "gpu:3090:2,gpu:2080:2", "gpu",
			"3090 /dev/nvidia2, 3090 /dev/nvidia3, 2080 /dev/nvidia0, 2080 /dev/nvidia1"},
		{"Name=gpu Type=80g File=/dev/nvidia[2-3]\nName=gpu Type=80g File=/dev/nvidia[0-1]\n", "gpu:80g:4", "gpu",
			"80g /dev/nvidia2, 80g /dev/nvidia3, 80g /dev/nvidia0, 80g /dev/nvidia1"},
		{"Name=gpu Type=1g File=/dev/nvidia[0-1]\n", "gpu:1g:2(S:0-1)", "gpu", "1g /dev/nvidia0, 1g /dev/nvidia1"},
		{"Name=nic Type=hdr File=/gres/nic0\nName=nic Type=2k File=/gres/nic1\n", "nic:2k:1,nic:hdr:1", "nic", "2k /gres/nic1, hdr /gres/nic0"},
		{"Name=nic Type=200 File=/gres/nic0\nName=nic Type=400 File=/gres/nic1\n", "nic:400:1,nic:200:1", "nic", "400 /gres/nic1, 200 /gres/nic0"},
		{"Name=nic Type=200 File=/gres/nic0\n", "nic:200", "nic", ""}, // that are 200 NICs
	} {
		gres, err := slurm.ParseFile("gres.conf", c.gres)
		if err != nil {
			t.Fatal(err)
		}
		conf, err := slurm.ParseFile("slurm.conf", "NodeName=n1 Gres="+c.promised+"\n")
		if err != nil {
			t.Fatal(err)
		}
		devices, err := slurm.Merge(slurm.Conf(gres.Lines), slurm.Conf(conf.Lines), "n1", c.name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range devices {
			got = append(got, d.Type+" "+d.File)
		}
		if text := strings.Join(got, ", "); text != c.want && c.want != "" || c.want == "" && len(got) != 200 {
			t.Errorf("%s: %s, want %s", c.promised, text, c.want)
		}
	}
}
