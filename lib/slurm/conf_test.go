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

func TestLinesAreDividedAsSlurmDividesThem(t *testing.T) {
	for text, want := range map[string]string{
		"NodeName=n1 CPUs=4 \\ \n NodeAddr=10.9.0.1\n":           "nodename=n1 cpus=4 nodeaddr=10.9.0.1\n",
		"NodeName=n1 Reason=\"rack \\#4\" NodeAddr=10.9.0.1\n":   "nodename=n1 reason=rack #4 nodeaddr=10.9.0.1\n",
		"JobCompPass=a\\#b\nNodeName=n1 NodeAddr=10.9.0.1\n":     "jobcomppass=a#b\nnodename=n1 nodeaddr=10.9.0.1\n",
		"JobCompPass=a\\\\#b\nNodeName=n1\n":                     "jobcomppass=a\\\nnodename=n1\n",
		"JobCompPass=a\\\\\nNodeName=n1\n":                       "jobcomppass=a\\\nnodename=n1\n",
		"NodeName=n1 \\ # more\nNodeAddr=a\\\n":                  "nodename=n1 nodeaddr=a\n",
		"NodeName += n1 CPUs =4\r\nMailProg=\"/bin/a b\"\x00x\n": "nodename=n1 cpus=4\nmailprog=/bin/a b\n",
		"MailProg=\"a\"b\n":                                      "mailprog=\"a\"b\n",
	} {
		c, err := slurm.Read(files("x.conf", text), "/x.conf")
		got := ""
		for _, l := range c {
			for i, p := range l.Keys {
				got += strings.Repeat(" ", min(i, 1)) + p.Key + "=" + p.Value
			}
			got += "\n"
		}
		if err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestIncludesAreFoundAsSlurmFindsThem(t *testing.T) {
	root := files(
		"etc/slurm/slurm.conf", "ClusterName=Big\nInclude %c-nodes.conf\nInclude sub/a.conf\n",
		"etc/slurm/big-nodes.conf", "NodeName=n1\n",
		"etc/slurm/sub/a.conf", "Include b.conf\nInclude c.conf\n",
		"etc/slurm/b.conf", "MailProg=now\n",
		"etc/slurm/sub/c.conf", "Prolog=before-23.02\n",
	)
	c, err := slurm.Read(root, "/etc/slurm/slurm.conf")
	if err != nil || len(c.All("nodename")) != 1 || c.Last("mailprog") != "now" || c.Last("prolog") != "before-23.02" {
		t.Errorf("%+v, %v", c, err)
	}
	root["etc/slurm/sub/b.conf"] = root["etc/slurm/b.conf"]
	for text, want := range map[string]string{
		"Include sub/a.conf\n":             "/etc/slurm/sub/a.conf:1: include b.conf: that is /etc/slurm/b.conf to Slurm since 23.02, and /etc/slurm/sub/b.conf before",
		"Include %c.conf\nClusterName=c\n": "/etc/slurm/slurm.conf:1: include %c.conf: no ClusterName is before it",
		"Include b.conf# x\n":              "/etc/slurm/slurm.conf:1: include b.conf: put a space after the name: Slurm reads beyond it",
		"Include *.conf\n":                 "/etc/slurm/slurm.conf:1: include *.conf: Slurm takes no patterns",
		" Include b.conf\n":                `/etc/slurm/slurm.conf:1: "Include b.conf" is not KEY=VALUE`,
		"\nNodeName=n1 NodeAddr\n":         `/etc/slurm/slurm.conf:2: "NodeAddr" is not KEY=VALUE`,
	} {
		root["etc/slurm/slurm.conf"].Data = []byte(text)
		if _, err := slurm.Read(root, "/etc/slurm/slurm.conf"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
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
