package lease

import (
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/scan"
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

// guarded says for each HCA's interface why it is no job's.
func guarded(t *testing.T, bed *netnstest.NS, sys fstest.MapFS) map[string]error {
	t.Helper()
	answers := map[string]error{}
	n := &Node{State: t.TempDir(), Sys: sys}
	err := bed.Do(func() error {
		l, done, err := n.looking(t.Context(), 0)
		if err != nil {
			return err
		}
		defer done()
		return l.world.OnHost(func(v *scan.View) error {
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
				answers[i.Name] = l.guard(v, i.Index, s)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	return answers
}
