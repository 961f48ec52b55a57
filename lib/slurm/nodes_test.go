package slurm_test

import (
	"reflect"
	"testing"

	"gresnet/lib/slurm"
)

func TestHostsAreThoseThatSlurmConfNames(t *testing.T) {
	root := files(
		"etc/slurm/slurm.conf", "include nodes.conf\nNodeName=DEFAULT CPUs=8\nNodeName=login CPUs=1\nNodeName=x[1 NodeAddr=y\n",
		"etc/slurm/nodes.conf", "NodeName=a[1-3],b NodeAddr=10.0.0.[1-3],bee NodeHostname=host[01-03],b.example.org\nnodename=c[1-2] NODEADDR=c-mgmt\nNodeName=d[1-2] NodeAddr=10.0.1.1,10.0.1.2,10.0.1.3\nNodeName=e[1-2] NodeAddr=10.0.2.[1-2]x[\n",
	)
	conf, err := slurm.Read(root, "/etc/slurm/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	got := conf.Hosts([]string{"a2", "b", "c2", "d2", "e1", "login", "nowhere", "x1"})
	want := map[string]slurm.Host{
		"a2": {Addr: "10.0.0.2", Hostname: "host02"}, "b": {Addr: "bee", Hostname: "b.example.org"},
		"c2": {Addr: "c-mgmt"}, "d2": {Addr: "10.0.1.2"}, "e1": {}, "login": {},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("hosts %v, want %v", got, want)
	}
}
