package step

import (
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// The kernel here has no InfiniBand; a macvlan of another interface is made and removed alike.
func TestAChildOfAnInterfaceThatMovedIsMadeInTheJobAndRemovedWhereverItIs(t *testing.T) {
	host := netnstest.New(t)
	err := host.Do(func() error {
		ns, err := netns.Open(host.Path)
		if err != nil {
			return err
		}
		defer ns.Close()
		w := &world.World{Given: world.Given{Root: ns, Sys: fstest.MapFS{}, Table: table.Folder(t.TempDir()), Dir: state.Lease(t.TempDir()), Job: 1, Run: "0", Budget: poll.Budget{Context: t.Context()}}}
		w.Notice = func(format string, a ...any) { t.Logf(format, a...) }
		defer w.Close()
		if err := new(Namespace).Do(w); err != nil {
			return err
		}
		defer func() {
			if err := new(Namespace).Undo(w); err != nil {
				t.Error(err)
			}
		}()
		in := "nsenter --net=" + w.Dir.Netns() + " "
		host.Run("ip link add hca0 type veth peer name far; ip link set hca0 netns " + w.Dir.Netns())
		host.Run(in + "ip link set hca0 up")
		var parent link.ID
		err = w.InJob(func(v *scan.View) error {
			i, err := v.Link.Named("hca0")
			parent = i.ID
			return err
		})
		if err != nil {
			return err
		}
		child := &Child{
			Of: node.ID{GUID: "A"}, Name: "child0", Type: "macvlan", Index: virtual.ChildIndex(0, 1, 0),
			Link:  virtual.Child{Kind: "macvlan", Name: "child0", Index: virtual.ChildIndex(0, 1, 0), MAC: virtual.ChildMAC("a", 0)},
			Moved: parent, Inside: true,
		}
		for _, action := range []string{
			"true",
			in + "ip link set child0 name mine0",
			in + "ip link set child0 netns " + host.Path,
			in + "ip link del child0",
		} {
			if err := child.Do(w); err != nil {
				return err
			}
			if got := host.Run(in + "ip -d link show child0"); !strings.Contains(got, "child0@hca0") {
				t.Errorf("the job has %s", got)
			}
			host.Run(action)
			for range 2 {
				if err := child.Undo(w); err != nil {
					t.Errorf("after %s: %v", action, err)
				}
			}
			for _, where := range []string{"", in} {
				if left := host.Run(where + "ip -d link show type macvlan"); left != "" {
					t.Errorf("after %s there is %s", action, left)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
