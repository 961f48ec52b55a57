package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/event"
	"gresnet/lib/state"
	"gresnet/test/fusetest"
	"gresnet/test/netnstest"
)

func TestAnInterfaceThatLeadsToTheNodesISCSIRootIsNoJobs(t *testing.T) {
	bed := netnstest.New(t)
	bed.Run(`ip link add hca0 type veth peer name far; ip link set far up; ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
ip link add hca1 type veth peer name farther; ip link set farther up; ip link set hca1 up; ip addr add 10.1.0.2/24 dev hca1
ip route add 192.0.2.0/24 via 10.0.0.1`)
	for target, want := range map[string]string{
		"10.0.0.7":    "hca0",
		"192.0.2.7":   "hca0",
		"10.1.0.7":    "hca1",
		"203.0.113.7": "", // which is not to be reached
		"":            "",
	} {
		sys := fstest.MapFS{}
		if target != "" {
			sys["class/iscsi_connection/connection1:0/address"] = &fstest.MapFile{Data: []byte(target + "\n")}
		}
		for name, err := range guarded(t, bed, sys) {
			refused := err != nil && strings.Contains(err.Error(), "the node has an iSCSI disk from "+target+" through "+name)
			if refused != (name == want) || !refused && err != nil {
				t.Errorf("a disk at %q: %s: %v", target, name, err)
			}
		}
	}
}

// Root mounts a file system when a user looks at a path of autofs.
func TestAJobForWhoseHCAAFileSystemIsMountedIsRefusedAndTheNodeStays(t *testing.T) {
	bed := netnstest.New(t)
	bed.Run(`ip link add hca0 type veth peer name far; ip link set far up; ip link set hca0 up; ip addr add 10.2.0.2/24 dev hca0`)
	err := bed.Do(func() error {
		l, done, err := (&Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}}).LookFor(t.Context(), 0)
		if err != nil {
			return err
		}
		defer done()
		l.storage = []storage{{"/home", netip.MustParseAddr("10.2.0.9"), true}}
		return l.World.OnHost(func(v *scan.View) error {
			i, err := v.Link.Named("hca0")
			if err != nil {
				return err
			}
			if err := l.protectStorage(v, i.Index, i.Name); !errors.As(err, new(*gres.Refusal)) {
				t.Errorf("wanted a refusal, got %v", err)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAUsersForgedMountKeepsNoInterfaceFromJobs(t *testing.T) {
	bed := netnstest.New(t)
	bed.Run(`ip link add hca0 type veth peer name far; ip link set far up; ip link set hca0 up; ip addr add 10.2.0.2/24 dev hca0`)
	fusetest.Mount(t, "x\u00a0rw,addr=10.2.0.9\u00a0")
	for name, err := range guarded(t, bed, fstest.MapFS{}) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// slurmConf is a node's slurm.conf, of a node list with brackets.
const slurmConf = "include nodes.conf\nSlurmctldHost=ctl1(10.1.0.1)\nSlurmctldHost=ctl2\n"

func TestAnInterfaceThatSlurmNeedsIsNoJobs(t *testing.T) {
	bed := netnstest.New(t)
	bed.Run(`ip link add hca0 type veth peer name far; ip link set far up; ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
ip link add hca1 type veth peer name farther; ip link set farther up; ip link set hca1 up; ip addr add 10.1.0.9/24 dev hca1
ip link add hca2 type veth peer name farthest; ip link set farthest up; ip link set hca2 up; ip addr add 10.2.0.9/24 dev hca2
ip link add hca3 type veth peer name else; ip link set else up; ip link set hca3 up; ip addr add 10.3.0.9/24 dev hca3`)
	names := map[string]string{"ctl2": "10.2.0.1", "mgmt2": "10.3.0.9", "n2": "10.3.0.9"}
	for _, c := range []struct {
		name, nodes string
		want        map[string]string
	}{
		{"an address of a list", "NodeName=n[1-3] NodeAddr=10.0.0.[1-3]\n", map[string]string{"hca0": "hca0 has the address of NodeAddr 10.0.0.2"}},
		{"a name of a list", "NodeName=n[1-3] NodeAddr=mgmt[1-3]\n", map[string]string{"hca3": "hca3 has the address of NodeAddr mgmt2 (10.3.0.9)"}},
		{"a node that the file does not have", "NodeName=x\n", map[string]string{"hca3": "hca3 has the address of NodeAddr n2 (10.3.0.9)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want = maps.Clone(c.want)
			if c.want == nil {
				c.want = map[string]string{}
			}
			c.want["hca1"] = "the node reaches SlurmctldHost 10.1.0.1 through hca1"
			c.want["hca2"] = "the node reaches SlurmctldHost ctl2 (10.2.0.1) through hca2"
			n := &Host{State: state.Dir(t.TempDir()), Log: func(event.Event) {}, Sys: fstest.MapFS{}, Files: fstest.MapFS{
				"run/slurm/conf/slurm.conf": {Data: []byte(slurmConf)}, "run/slurm/conf/nodes.conf": {Data: []byte(c.nodes)},
			}}
			n.Slurm = Slurm{Name: "n2", Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
				if addr, is := names[name]; is {
					return []netip.Addr{netip.MustParseAddr(addr)}, nil
				}
				return nil, errors.New("no such host")
			}}
			for name, err := range guardedBy(t, bed, n) {
				if got := fmt.Sprint(err); got != cmp.Or(c.want[name], "<nil>") {
					t.Errorf("%s: %s, want %q", name, got, c.want[name])
				}
			}
		})
	}
}

// What keeps the guard from telling moves no interface. What may be over in a minute, or users can bring
// about, is the job's bad luck; the rest is the node's fault.
func TestAnInterfaceThatTheNodeMayNeedIsNoJobs(t *testing.T) {
	bed := netnstest.New(t)
	bed.Run(`ip link add hca0 type veth peer name far; ip link set far up; ip link set hca0 up; ip addr add 10.9.0.1/24 dev hca0`)
	known := func(_ context.Context, name string) ([]netip.Addr, error) {
		if name == "ctl1" {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		}
		return nil, errors.New("no such host")
	}
	never := func(context.Context, string) ([]netip.Addr, error) { return nil, context.DeadlineExceeded }
	for name, c := range map[string]struct {
		conf    string
		files   fs.FS
		resolve func(context.Context, string) ([]netip.Addr, error)
		want    string
		refused bool
	}{
		"all is known":            {conf: "NodeName=n2 NodeAddr=10.8.0.1\nSlurmctldHost=ctl1\n", resolve: known},
		"a blank after \\":        {conf: "NodeName=n2 CPUs=4 \\ \n NodeAddr=10.9.0.1\n", want: "hca0 has the address of NodeAddr 10.9.0.1"},
		"an escaped # before":     {conf: "JobCompPass=a\\#b \\\n\nNodeName=n2 Reason=\"rack \\#4\" NodeAddr=10.9.0.1\n", want: "hca0 has the address of NodeAddr 10.9.0.1"},
		"the node's host name":    {conf: "NodeName=gpu001 NodeHostname=n2 NodeAddr=10.9.0.1\n", want: "hca0 has the address of NodeAddr 10.9.0.1"},
		"five brackets":           {conf: "NodeName=n[2]x[0]c[0]s[0]b[0],n2 NodeAddr=10.9.0.[0-1]\n", want: "hca0 has the address of NodeAddr 10.9.0.1"},
		"a line that is odd":      {conf: "NodeName=n2 NodeAddr\n", want: `move hca0: find what is reserved for the host: /etc/slurm/slurm.conf:1: "NodeAddr" is not KEY=VALUE`},
		"a list that is odd":      {conf: "NodeName=n[1\n", want: `move hca0: find what is reserved for the host: /etc/slurm/slurm.conf:1: parse hostlist "n[1": "n[1" has no closing bracket`},
		"an include that is away": {conf: "Include %c-nodes.conf\n", want: "move hca0: find what is reserved for the host: /etc/slurm/slurm.conf:1: include %c-nodes.conf: no ClusterName is before it"},
		"no file":                 {files: fstest.MapFS{}, want: "move hca0: find what is reserved for the host: read slurm.conf: it is in none of"},
		"a name without address": {conf: "NodeName=n2 NodeAddr=10.8.0.1\nSlurmctldHost=ctl2\n", resolve: known, refused: true,
			want: "hca0 stays on the node until what is reserved for the host is known: look up SlurmctldHost ctl2: no such host"},
		"a resolver that is away": {conf: "NodeName=n2 NodeAddr=10.8.0.1\nSlurmctldHost=ctl1\n", resolve: never, refused: true,
			want: "hca0 stays on the node until what is reserved for the host is known: look up SlurmctldHost ctl1: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Host{State: state.Dir(t.TempDir()), Log: func(event.Event) {}, Sys: fstest.MapFS{}, Files: c.files}
			if c.files == nil {
				n.Files = fstest.MapFS{"etc/slurm/slurm.conf": {Data: []byte(c.conf)}}
			}
			n.Slurm = Slurm{Name: "n2", Resolve: c.resolve}
			err := guardedBy(t, bed, n)["hca0"]
			if text := fmt.Sprint(err); c.want == "" && err != nil || !strings.HasPrefix(text, c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if refused := errors.As(err, new(*gres.Refusal)); refused != c.refused {
				t.Errorf("%v is the job's bad luck: %t, want %t", err, refused, c.refused)
			}
			if err != nil && hint.Of(err) == "" {
				t.Errorf("%v says not what to do", err)
			}
		})
	}
}

func TestAServerThatIsAwayKeepsNobodyWaitingBeyondTheDeadline(t *testing.T) {
	n := &Host{Files: fstest.MapFS{"etc/slurm/slurm.conf": {Data: []byte("SlurmctldHost=ctl1\nSlurmctldHost=ctl2(10.1.0.1)\n")}}}
	ctx, deadline := context.WithCancel(t.Context())
	n.Slurm = Slurm{Name: "n2", Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
		deadline() // it has read slurm.conf by now
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if list, unknown := n.findLifelines(ctx); len(list) != 1 || list[0].what != "SlurmctldHost 10.1.0.1" || len(unknown) != 2 {
		t.Errorf("lifelines %v, unknown %v", list, unknown)
	}
	n.Files = stuck{}
	if list, unknown := n.findLifelines(ctx); len(list) > 0 || len(unknown) != 1 {
		t.Errorf("with a slurm.conf that cannot be read for ever: lifelines %v, unknown %v", list, unknown)
	}
}

// stuck is a file system whose server is away.
type stuck struct{}

func (stuck) Open(string) (fs.File, error) { select {} }

// guarded says for each HCA's interface why it is no job's.
func guarded(t *testing.T, bed *netnstest.NS, sys fstest.MapFS) map[string]error {
	t.Helper()
	return guardedBy(t, bed, &Host{State: state.Dir(t.TempDir()), Sys: sys})
}

func guardedBy(t *testing.T, bed *netnstest.NS, n *Host) map[string]error {
	t.Helper()
	answers := map[string]error{}
	err := bed.Do(func() error {
		l, done, err := n.LookFor(t.Context(), 0)
		if err != nil {
			return err
		}
		defer done()
		l.lookForLifelines(Picked{Entries: []gres.Entry{{}}})
		return l.World.OnHost(func(v *scan.View) error {
			list, err := v.Link.List()
			if err != nil {
				return err
			}
			for _, i := range list {
				if !strings.HasPrefix(i.Name, "hca") {
					continue
				}
				s, err := v.Link.Settings(i.Index)
				if err != nil {
					return err
				}
				answers[i.Name] = l.protectNode(v, i.Index, s)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	return answers
}
