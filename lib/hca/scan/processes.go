package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
)

// Users is a look at the users of one moment: it asks the kernel once for each HCA, and no longer than
// poll.HolderList for all of them, so it may be taken with the node lock held.
//
// A process can keep what it has opened, or be handed what another one has opened, longer than the job lasts: in
// shared mode it would use the next job's HCA, in exclusive mode it can keep the kernel from moving it. Such an HCA
// is kept from jobs as long as that is so, and nothing of it is written down. It is no fault of the node's, or any
// user could drain it.
type Users struct {
	Err error // the first that came of the look

	view  *View
	uses  map[uint32]rdma.Uses // by the index of the RDMA device; nil: not counted yet
	until time.Time            // when long lists are left
	said  map[node.ID]string
}

// OpenUsers begins a look by the node's /sys. On a node without RDMA no process uses any HCA.
func OpenUsers(sys fs.FS) (*Users, error) {
	v, err := Open(sys, NewKnown())
	if err != nil {
		return nil, err
	}
	return &Users{view: v, said: map[node.ID]string{}}, nil
}

// Close ends the look.
func (u *Users) Close() { u.view.Close() }

// Of says who uses an HCA, nothing if no user does, or it is not in the root namespace.
func (u *Users) Of(id node.ID) string {
	id = id.Whole()
	by, known := u.said[id]
	if known || u.view == nil || u.Err != nil {
		return by
	}
	by, err := u.of(id)
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, rdma.ErrNoRDMA) {
		u.Err = fmt.Errorf("look who uses HCA %s: %w", id, err)
	}
	u.said[id] = by
	return by
}

// count counts how much of each HCA is used, which is one answer for all. Mostly nothing is.
func (u *Users) count() (used bool, err error) {
	if u.uses == nil {
		u.until = time.Now().Add(poll.HolderList)
		u.uses, err = u.view.Uses()
	}
	for _, uses := range u.uses {
		used = used || uses != rdma.Uses{}
	}
	return used, err
}

// of looks twice if a process that the kernel names has ended since: it may have been about to end, or its
// descriptor may be another one's now.
func (u *Users) of(id node.ID) (by string, err error) {
	if used, err := u.count(); err != nil || !used {
		return "", err
	}
	d, err := u.view.Find(id)
	if err != nil || u.uses[d.Index] == (rdma.Uses{}) {
		return "", err
	}
	ended := true
	for range 2 {
		var holders []rdma.Holder
		holders, err = u.view.Holders(d, u.until)
		if by, ended = userOf(holders); by != "" || !ended {
			break
		}
	}
	switch {
	case by == "" && errors.Is(err, rdma.ErrTooMany):
		return "processes that are too many to be listed", nil
	case errors.Is(err, rdma.ErrTooMany):
		return by, nil
	case by == "" && ended && err == nil:
		return handedOn, nil
	}
	return by, err
}

// handedOn is a process that the kernel does not name: the one that it would name has ended. The kernel does not say
// which descriptor a context has, so no process of root's that has the HCA open, too, speaks for the user.
const handedOn = "a process that was handed a descriptor, and is not found,"

// someUsers is how many users of an HCA are named.
const someUsers = 3

// who names users among the holders of an HCA. Root's programs are the site's affair. ended tells that a process
// which the kernel names is not there any more.
func userOf(holders []rdma.Holder) (by string, ended bool) {
	var named []string
	handed := false
	for _, h := range holders {
		handed = handed || h == rdma.Holder{}
		if h.PID == 0 {
			continue
		}
		p, uid, err := proc.UserOf(int(h.PID))
		switch {
		case err != nil:
			ended = true
		case uid != 0 && len(named) == someUsers:
			return strings.Join(named, ", ") + " and others", ended
		case uid != 0:
			named = append(named, fmt.Sprintf("%s of user %d", p, uid))
		}
	}
	if len(named) == 0 && handed {
		return handedOn, ended
	}
	return strings.Join(named, ", "), ended
}
