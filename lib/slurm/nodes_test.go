package slurm_test

import (
	"fmt"
	"reflect"
	"testing"
	"testing/fstest"

	"gresnet/lib/slurm"
)

func TestHostsAreThoseThatSlurmConfNames(t *testing.T) {
	root := files(
		"etc/slurm/slurm.conf", "include nodes.conf\nNodeName=DEFAULT CPUs=8 Port=7000\nNodeName=login CPUs=1\nNodeName=p[1-2] Port=7001-7002\n",
		"etc/slurm/nodes.conf", "NodeName=a[1-3],b NodeAddr=10.0.0.[1-3],bee NodeHostname=host[01-03],b.example.org\nnodename=c[1-2] NODEADDR=c-mgmt\n"+
			"NodeName=d CPUs=4 \\ \n NodeAddr=10.9.0.1 Reason=\"rack \\#4\" Port=[6900]\n",
	)
	conf, err := slurm.Read(root, "/etc/slurm/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	got, err := conf.Hosts([]string{"a2", "b", "c2", "d", "login", "nowhere", "p2"})
	want := map[string]slurm.Host{
		"a2": {Addr: "10.0.0.2", Hostname: "host02"}, "b": {Addr: "bee", Hostname: "b.example.org"},
		"c2": {Addr: "c-mgmt"}, "d": {Addr: "10.9.0.1", Port: 6900}, "login": {Port: 7000}, "p2": {Port: 7002},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("hosts %v, %v, want %v", got, err, want)
	}
	for hostname, want := range map[string]string{"host02": "a2", "host02.example.org": "a2", "b.example.org": "b", "c1": "c1", "a2": "a2", "c1.example.org": "c1", "nowhere": "nowhere"} {
		if node, err := conf.Node(hostname); err != nil || node != want {
			t.Errorf("on %s is %q, %v, want %q", hostname, node, err, want)
		}
	}
}

func TestLinesOfNodesThatDoNotReadAreErrorsWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"NodeName=x[1 NodeAddr=y\n":                    `/etc/x.conf:2: parse hostlist "x[1": "x[1" has no closing bracket`,
		"NodeName=n[1-2] NodeAddr=10.0.0.[1-3]\n":      `/etc/x.conf:2: nodeaddr counts 3 and NodeName 2`,
		"NodeName=n[1-2] NodeHostname=a[1-2,4]\n":      `/etc/x.conf:2: nodehostname counts 3 and NodeName 2`,
		"NodeName=n1 NodeAddr=10.0.2.[1-2]x[\n":        `/etc/x.conf:2: parse hostlist "10.0.2.[1-2]x[": "10.0.2.[1-2]x[" has no closing bracket`,
		"NodeName=n1 Port=70000\n":                     `/etc/x.conf:2: "70000" are no ports of 1 nodes`,
		"NodeName=\"\" CPUs=1\n":                       `/etc/x.conf:2: it names no node`,
		"NodeName=n[1-70000] NodeAddr=10.0.0.1 CPUs=1": `/etc/x.conf:2: parse hostlist "n[1-70000]": "1-70000" is no range of up to 65536 numbers`,
	} {
		if _, err := conf(t, "ClusterName=c\n"+text).Hosts([]string{"n1"}); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestWhatSlurmdRefusesIsAFault(t *testing.T) {
	for text, want := range map[string]string{
		"NodeName=n1 CPUs=4 Gres=nic:4 State=UNKNOWN\nPartitionName=p Nodes=n1 Default=YES\nProlog=/x\n": "",
		"NodeName=n1 CPUs=4 \\ \nProlog=/x\n": "/etc/x.conf:1: a line of nodename has no prolog",
		"Prolog=/x Epilog=/y\n":               "/etc/x.conf:1: prolog is not alone in its line",
		"NodeName=n[1 CPUs=4\n":               `/etc/x.conf:1: parse hostlist "n[1": "n[1" has no closing bracket`,
	} {
		got := ""
		for _, err := range conf(t, text).Faults() {
			got += err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"Name=gpu AutoDetect=nvml File=/dev/nvidia0 Cores=0-3 Links=-1\nNodeName=n1 Name=nic Count=2 Flags=x\nAutoDetect=off\n": "",
		"Name=nic NodeName=n1\n": "/etc/x.conf:1: a line of name has no nodename",
		"File=/x Name=nic\n":     "/etc/x.conf:1: no line begins with file",
	} {
		got := ""
		for _, err := range conf(t, text).GresFaults() {
			got += err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A backslash too many gives a node another one's address; slurmd refuses the file, and may run still.
func TestWhatANodeNeedsIsNotReadFromALineThatGoesOnIntoAnother(t *testing.T) {
	for _, second := range []string{"NodeName=n2 NodeAddr=10.0.0.2", "PartitionName=p Nodes=n1"} {
		root := fstest.MapFS{"etc/slurm/slurm.conf": {Data: []byte("SlurmctldHost=a(10.0.0.9)\nNodeName=n1 NodeAddr=10.0.0.1 \\\n" + second + "\n")}}
		if needs, err := slurm.Needs(root, "/etc/slurm/slurm.conf", "n1"); err == nil {
			t.Errorf("with %s in the next line n1 needs %v", second, needs)
		}
	}
}

func TestALinesListsAreReadOnceHoweverManyOfItsNodesAreAskedFor(t *testing.T) {
	const nodes = 2000
	line := fmt.Sprintf("NodeName=n[1-%d] NodeAddr=a[1-%[1]d] NodeHostname=h[1-%[1]d] Port=[10001-%d]\n", nodes, 10000+nodes)
	conf, err := slurm.Read(files("slurm.conf", line), "/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	names, err := slurm.NodesIn(fmt.Sprintf("n[1-%d]", nodes))
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(1, func() {
		hosts, err := conf.Hosts(names)
		if want := (slurm.Host{Addr: "a2000", Hostname: "h2000", Port: 12000}); err != nil || len(hosts) != nodes || hosts["n2000"] != want {
			t.Errorf("%d hosts, the last %+v, %v", len(hosts), hosts["n2000"], err)
		}
	})
	if allocations > 30*nodes {
		t.Errorf("%.0f allocations for %d nodes", allocations, nodes)
	}
}
