package step

import (
	"testing"
	"testing/fstest"

	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// A node with eight HCAs asks the kernel for each of its interfaces, and each request waits for the kernel's RTNL lock.
func TestAnInterfaceThatIsReturnedIsLookedForOnceForAllThatIsAskedOfIt(t *testing.T) {
	host := netnstest.New(t)
	host.Run("ip link add hca0 type veth peer name far; ip link set far up; ip addr add 10.0.0.2/24 dev hca0; ip link set hca0 up")
	err := host.Do(func() error {
		ns, err := netns.Open(host.Path)
		if err != nil {
			return err
		}
		defer ns.Close()
		w := &world.World{Given: world.Given{Root: ns, Sys: fstest.MapFS{}, Table: table.Folder(t.TempDir()), Dir: state.Lease(t.TempDir()), Job: 1, Run: "0", Budget: poll.Budget{Context: t.Context()}}}
		w.Notice = func(format string, a ...any) { t.Logf(format, a...) }
		defer w.Close()
		return w.OnHost(func(v *scan.View) error {
			i, err := v.Link.Named("hca0")
			if err != nil {
				return err
			}
			s := &Settings{Interface: i.ID}
			if s.Settings, err = v.Link.Settings(i.Index); err != nil {
				return err
			}
			if _, err := v.Interface(i.ID); err != nil { // from now on the run knows its index
				return err
			}
			asked := func(do func() error) (n int) {
				t.Helper()
				before := v.Link.Route.Asked()
				if err := do(); err != nil {
					t.Error(err)
				}
				return v.Link.Route.Asked() - before
			}
			restore := func() error { return snapshot.Finished(v.Link.Apply(i.Index, s.Settings, snapshot.Returned)) }
			if err := restore(); err != nil { // the next has nothing to wait for
				return err
			}
			apply := asked(restore)
			undo := asked(func() error { return s.Undo(w) })
			if undo > apply {
				t.Errorf("an undo makes %d requests, and %d of them restore the settings", undo, apply)
			}
			return v.Link.Once(func() error {
				if n := asked(func() error { _, err := v.Link.List(); return err }); n != 1 {
					t.Errorf("a list takes %d requests", n)
				}
				if n := asked(func() error { _, err := v.Interface(i.ID); return err }); n != 0 {
					t.Errorf("an interface that is listed takes %d requests more", n)
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
