package host

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/node"
	"gresnet/lib/proc"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/sysfs"
	"gresnet/lib/table"
)

// Users looks for processes of users that use HCAs which no job has. A process can be handed
// what another one has opened, and keep it longer than the job lasts: in shared mode it would
// use the next job's HCA, in exclusive mode it can keep the kernel from moving it.
//
// What it finds is nowhere written down. Such an HCA is kept from jobs as long as it is so, and
// whoever wants to know looks again. It is no fault of the node's, or any user could drain it.
type Users struct {
	view *scan.View
	used []uint32 // indices of RDMA devices that may be used
	sys  fs.FS
	Err  error // the first that came of a look
}

// Users begins a look. A node without RDMA has nobody who uses it; and where the site
// lets users have free HCAs, who has one is no reason to keep it from jobs.
func (n *Host) Users() (*Users, error) {
	if n.Config.Access.Host == config.Open {
		return &Users{}, nil
	}
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return nil, err
	}
	u := &Users{view: v, sys: n.Sys}
	u.used, err = v.Used()
	if errors.Is(err, rdma.ErrNoRDMA) {
		err = nil
	}
	if err != nil {
		v.Close()
		return nil, err
	}
	return u, nil
}

func (u *Users) Close() {
	if u.view != nil {
		u.view.Close()
	}
}

// Of says who uses an HCA, nothing if no user does, or it is not in the root namespace.
func (u *Users) Of(id node.ID) string {
	if len(u.used) == 0 || u.Err != nil {
		return ""
	}
	text, err := u.look(id)
	if err != nil && !errors.Is(err, scan.ErrNotFound) {
		u.Err = fmt.Errorf("look who uses HCA %s: %w", id, err)
	}
	return text
}

func (u *Users) look(id node.ID) (string, error) {
	d, err := u.view.Glance(id)
	if err != nil || !slices.Contains(u.used, d.Index) {
		return "", err
	}
	pids, abandoned, err := u.view.Users(d)
	if err != nil {
		return "", err
	}
	var found []string
	for _, pid := range pids {
		p, uid, err := proc.UserOf(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended meanwhile
		}
		if err != nil {
			return "", err
		}
		if uid != 0 { // what root's programs do with HCAs is the site's affair
			found = append(found, fmt.Sprintf("%s of user %d", p, uid))
		}
	}
	if abandoned && len(found) == 0 {
		return u.inheritors(d, pids)
	}
	return strings.Join(found, ", "), nil
}

// inheritors says who uses an HCA after the process that opened it has ended. known lists the
// processes that opened it themselves.
func (u *Users) inheritors(d scan.Device, known []int) (string, error) {
	verbs, err := u.inheritorsOf(known, func(major, minor uint32) bool {
		return slices.ContainsFunc(d.Chars, func(c scan.Char) bool { return c.Major == major && c.Minor == minor })
	})
	if err != nil {
		return "", err
	}
	if len(verbs.users) > 0 || verbs.roots {
		return strings.Join(verbs.users, ", "), nil
	}
	major, minor, err := sysfs.Dev(u.sys, "misc", "rdma_cm")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	cm, err := u.inheritorsOf(nil, func(a, b uint32) bool { return major != 0 && a == major && b == minor })
	switch {
	case err != nil:
		return "", err
	case len(cm.users) > 0:
		return "a process that was handed a descriptor, one of: " + FirstOf(cm.users), nil
	}
	return "a process that was handed a descriptor, and is not found", nil
}

// inheritors are processes that have a device open which they did not open themselves.
type inheritors struct {
	users []string
	roots bool // root has one
}

func (u *Users) inheritorsOf(known []int, is func(major, minor uint32) bool) (h inheritors, err error) {
	all, err := proc.WithOpen(is)
	if err != nil {
		return inheritors{}, err
	}
	for _, p := range all {
		if slices.Contains(known, p.PID) {
			continue
		}
		_, uid, err := proc.UserOf(p.PID)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return inheritors{}, err
		case uid == 0:
			h.roots = true
		default:
			h.users = append(h.users, fmt.Sprintf("%s of user %d", p, uid))
		}
	}
	return h, nil
}

// HeldOrUsed returns a function that says who holds an HCA by the table, or whose process uses it.
func (u *Users) HeldOrUsed(t *table.Table) func(node.ID) (gres.Holder, bool) {
	held := HoldersIn(t)
	return func(id node.ID) (gres.Holder, bool) {
		if by, is := held(id); is {
			return by, true
		}
		if t.SharedOf(id) != nil && id.Slot != "" {
			return gres.Holder{}, false // processes of the jobs that have its other slots use it
		}
		by := u.Of(id)
		return gres.Holder{User: by}, by != ""
	}
}
