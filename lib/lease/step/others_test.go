package step

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/link"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// An undone mark that does not read says that this lease has it still. test/model found it: OTHERS_ARE_SPARED.
func TestWhatIsInAnotherNamespaceIsLeftThereAndIsNotAwaitedIfAnotherLeaseHasIt(t *testing.T) {
	host, others := netnstest.New(t), netnstest.New(t)
	host.Run("ip link add hca0 type veth peer name far")
	s := &Link{Of: node.ID{GUID: "A"}, Name: "hca0"}
	file := table.Folder(t.TempDir())
	onHost := func(f func(*world.World) error) {
		t.Helper()
		err := host.Do(func() error {
			ns, err := netns.Open(host.Path)
			if err != nil {
				return err
			}
			defer ns.Close()
			w := &world.World{Given: world.Given{Root: ns, Sys: fstest.MapFS{}, Table: file, Dir: state.Lease(t.TempDir()), Job: 1, Run: "0", Budget: poll.Budget{Context: t.Context()}}}
			w.Notice = func(format string, a ...any) { t.Logf(format, a...) }
			defer w.Close()
			return f(w)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	onHost(func(w *world.World) error {
		return w.OnHost(func(v *scan.View) error {
			list, err := v.Link.List()
			for _, i := range list {
				if i.Name == string(s.Name) {
					s.Interface = i.ID
				}
			}
			return err
		})
	})
	if s.Interface == (link.ID{}) {
		t.Fatal("hca0 is not there")
	}
	host.Run("ip link set hca0 netns " + others.Path)
	for _, job := range []uint32{2, 1} {
		err := file.Update(t.Context(), func(now *table.Table) error {
			now.Claims = []table.Claim{{HCA: s.Of, Job: job, Run: "0"}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		onHost(func(w *world.World) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			w.Context = ctx
			if err := s.Undo(w); (err == nil) != (job == 2) {
				t.Errorf("job %d has claimed it, and the undo says %v", job, err)
			}
			return nil
		})
		others.Run("ip link show hca0")
	}
}
