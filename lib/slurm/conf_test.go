package slurm_test

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/slurm"
)

func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func TestReadFollowsIncludesAndJoinsLines(t *testing.T) {
	root := files(
		"etc/slurm/slurm.conf", "# the cluster\nClusterName=test # of tests\nSlurmctldHost=ctl1(10.0.0.1)\nslurmctldhost = ctl2\n"+
			"include nodes.conf\nInclude /opt/more.conf\nPrologFlags=Alloc\nPROLOGFLAGS=Contain\n",
		"etc/slurm/nodes.conf", "NodeName=node[1-2] CPUs=16 \\\n  Gres=gpu:8,nic:4 # eight\nMailProg=\"/bin/a b\" X=1\r\n",
		"opt/more.conf", "GresTypes=gpu,nic",
	)
	c, err := slurm.Read(root, "/etc/slurm/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Controllers(); !reflect.DeepEqual(got, []string{"ctl1", "ctl2"}) {
		t.Errorf("controllers %q", got)
	}
	for key, want := range map[string]string{"prologflags": "Contain", "grestypes": "gpu,nic", "mailprog": "/bin/a b", "epilog": ""} {
		if got := c.Last(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	nodes := c.All("nodename")
	if len(nodes) != 1 || nodes[0].Get("gres") != "gpu:8,nic:4" || nodes[0].Number != 1 || nodes[0].File != "/etc/slurm/nodes.conf" {
		t.Errorf("nodes %+v", nodes)
	}
}

func TestControllersAreReachedByTheirAddresses(t *testing.T) {
	for text, want := range map[string][]slurm.Pair{
		"SlurmctldHost=ctl1(10.0.0.1)\nSlurmctldHost=ctl2\nSlurmctldAddr=ctl.example.org\n": {
			{Key: "SlurmctldHost", Value: "10.0.0.1"}, {Key: "SlurmctldHost", Value: "ctl2"}, {Key: "SlurmctldAddr", Value: "ctl.example.org"},
		},
		"ControlMachine=ctl1\nControlAddr=10.0.0.1\nBackupController=ctl2\n": {
			{Key: "ControlMachine", Value: "10.0.0.1"}, {Key: "BackupController", Value: "ctl2"},
		},
		"ClusterName=none\n": nil,
	} {
		c, err := slurm.Read(files("slurm.conf", text), "/slurm.conf")
		if got := c.ControllerAddrs(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestReadNamesWhatItCannotRead(t *testing.T) {
	root := files(
		"etc/a.conf", "include missing.conf\n",
		"etc/loop.conf", "include loop.conf\n",
	)
	if _, err := slurm.Read(root, "/etc/a.conf"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/etc/missing.conf") {
		t.Errorf("an include that is missing: %v", err)
	}
	if _, err := slurm.Read(root, "/etc/loop.conf"); err == nil || !strings.Contains(err.Error(), "include one another") {
		t.Errorf("a file that includes itself: %v", err)
	}
}
