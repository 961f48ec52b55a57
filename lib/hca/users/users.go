// Package users says which processes of users use HCAs that no job has.
//
// A process can be handed what another one has opened, and keep it longer than the job lasts: in
// shared mode it would use the next job's HCA, in exclusive mode it can keep the kernel from moving
// it. What this package finds is nowhere written down. Such an HCA is kept from jobs as long as it is
// so, and whoever wants to know looks again. It is no fault of the node's, or any user could drain it.
//
// Users decide how long a search for such a process takes: so it is bounded, goes on in a process of its
// own, and nobody who searches has the node lock. Where the lock is held, the kernel is asked for numbers
// alone (Refresh). What the search does not find in time counts as used.
package users

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
)

// Look is a look at the processes of one moment.
type Look struct {
	view  *scan.View
	sys   fs.FS
	run   *Run
	table table.Folder
	uses  map[uint32]rdma.Uses // by the index of the RDMA device
	list  func(index uint32, most int) (contexts []uint32, err error)
	found map[node.ID]answer   // by Search
	tries int                  // searches
	Asked map[node.ID]struct{} // what a search has to answer first
	Err   error                // the first that came of a look
}

// answer is what a search found of an HCA.
type answer struct {
	contexts uint64   // how many it had then
	listed   []uint32 // which, before the search began; empty if the kernel does not list them
	text     string   // who uses it; empty: no user
}

// Run is what a run of a program has searched.
type Run struct {
	mutex sync.Mutex
	spent time.Duration
	found map[node.ID]answer
}

// Open begins a look by the node's /sys. A node without RDMA has nobody who uses it. Who asks Of or Counts
// calls Refresh first.
func Open(sys fs.FS, t table.Folder, run *Run) (*Look, error) {
	v, err := scan.Open(sys, scan.NewKnown())
	if err != nil {
		return nil, err
	}
	return &Look{view: v, sys: sys, run: run, table: t, list: v.Contexts, found: map[node.ID]answer{}}, nil
}

// Close ends the look.
func (u *Look) Close() {
	if u.view != nil {
		u.view.Close()
	}
}

// Refresh asks the kernel how much of each HCA is used now.
func (u *Look) Refresh() (err error) {
	u.Asked = map[node.ID]struct{}{}
	if u.view == nil {
		return nil
	}
	if u.uses, err = u.view.Uses(); errors.Is(err, rdma.ErrNoRDMA) {
		err = nil
	}
	return err
}

// maxTries bounds the searches of a look. The HCA of a user who makes each of them out of date counts as
// used.
const maxTries = 3

// errSearch means that a search is to answer first, without the node lock.
var errSearch = errors.New("it is not known yet who uses the HCAs")

// Fault is the first error of the look, or errSearch if Of was asked what it does not know.
func (u *Look) Fault() error {
	if u.Err == nil && len(u.Asked) > 0 {
		return errSearch
	}
	return u.Err
}

// Repeat calls pick, which asks Of with the node lock, and searches without it as often as pick must know
// more.
func (u *Look) Repeat(pick func() error) error {
	for {
		err := pick()
		if !errors.Is(err, errSearch) {
			return err
		}
		if err := u.SearchFree(); err != nil {
			return err
		}
	}
}

// SearchFree searches for who uses HCAs that no job has. What becomes free meanwhile it leaves out.
func (u *Look) SearchFree() error {
	if u.view == nil {
		return nil
	}
	t, err := u.table.Read()
	if err != nil {
		return err
	}
	u.search(t.Unclaimed(slices.Collect(maps.Keys(u.Asked))))
	return u.Err
}

// Of says who uses an HCA, nothing if no user does, or it is not in the root namespace. It searches for
// nobody: what a search has to answer first is in Asked then, and counts as used.
//
// What a search has said of an HCA holds as long as the HCA has the contexts that it had before the search.
// A connection that comes after the search could come just as well after the claim, and gives nobody a part
// of the HCA.
func (u *Look) Of(id node.ID) string {
	id = id.Whole()
	d, uses, err := u.device(id)
	if err != nil {
		return ""
	}
	return u.judge(id, d.Index, uses)
}

func (u *Look) judge(id node.ID, index uint32, uses rdma.Uses) string {
	if uses == (rdma.Uses{}) {
		return ""
	}
	a, is := u.found[id]
	if is && a.contexts == uses.Contexts && (a.text != "" || u.same(a, index)) {
		return a.text
	}
	if u.tries < maxTries {
		u.Asked[id] = struct{}{}
	}
	return "a process that was not found, since others began and ended to use it,"
}

// same tells whether an HCA has the contexts that it had before a search: as many others could have come in
// the place of those. It reads no more than are to be there, which are all root's.
func (u *Look) same(a answer, index uint32) bool {
	if len(a.listed) == 0 {
		return true
	}
	now, err := u.list(index, len(a.listed))
	return err == nil && slices.Equal(now, a.listed)
}

// Counts tells whether an HCA counts as used, without a search: by the last one of the run, or else by the
// pids that the kernel lists.
func (u *Look) Counts(id node.ID) bool {
	id = id.Whole()
	d, uses, err := u.device(id)
	if err != nil || uses == (rdma.Uses{}) {
		return false
	}
	if a, is := u.run.last(id); is && a.contexts == uses.Contexts {
		return a.text != ""
	}
	pids, err := u.view.Users(d)
	isUsers := func(pid int) bool {
		_, uid, err := proc.UserOf(pid)
		return err == nil && uid != 0
	}
	return err != nil || slices.ContainsFunc(pids, isUsers) || len(pids) == 0 && uses.Contexts > 0
}

// Found returns who uses an HCA by the last search that was about it.
func (u *Look) Found(id node.ID) string { return u.found[id.Whole()].text }

// device finds an HCA's device, and how much of it is used.
func (u *Look) device(id node.ID) (scan.Device, rdma.Uses, error) {
	used := false
	for _, uses := range u.uses {
		used = used || uses != rdma.Uses{}
	}
	if !used || u.Err != nil {
		return scan.Device{}, rdma.Uses{}, u.Err
	}
	d, err := u.view.Find(id)
	if err != nil {
		if !errors.Is(err, scan.ErrNotFound) {
			u.Err = fmt.Errorf("look who uses HCA %s: %w", id, err)
		}
		return scan.Device{}, rdma.Uses{}, err
	}
	return d, u.uses[d.Index], nil
}
