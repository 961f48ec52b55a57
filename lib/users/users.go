// Package users says which processes of users use HCAs that no job has.
//
// A process can be handed what another one has opened, and keep it longer than the job lasts: in
// shared mode it would use the next job's HCA, in exclusive mode it can keep the kernel from moving
// it. What this package finds is nowhere written down. Such an HCA is kept from jobs as long as it is
// so, and whoever wants to know looks again. It is no fault of the node's, or any user could drain it.
package users

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gresnet/lib/event"
	"gresnet/lib/node"
	"gresnet/lib/proc"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/sysfs"
)

// Look is a look at the processes of one moment.
type Look struct {
	view *scan.View
	used []uint32 // indices of RDMA devices that may be used
	sys  fs.FS
	Err  error // the first that came of a look
}

// Open begins a look by the node's /sys. A node without RDMA has nobody who uses it.
func Open(sys fs.FS) (*Look, error) {
	v, err := scan.Open(sys, scan.NewKnown())
	if err != nil {
		return nil, err
	}
	u := &Look{view: v, sys: sys}
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

// Close ends the look.
func (u *Look) Close() {
	if u.view != nil {
		u.view.Close()
	}
}

// Of says who uses an HCA, nothing if no user does, or it is not in the root namespace.
func (u *Look) Of(id node.ID) string {
	if len(u.used) == 0 || u.Err != nil {
		return ""
	}
	text, err := u.look(id)
	if err != nil && !errors.Is(err, scan.ErrNotFound) {
		u.Err = fmt.Errorf("look who uses HCA %s: %w", id, err)
	}
	return text
}

func (u *Look) look(id node.ID) (string, error) {
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
func (u *Look) inheritors(d scan.Device, known []int) (string, error) {
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
		return "a process that was handed a descriptor, one of: " + event.FirstOf(cm.users), nil
	}
	return "a process that was handed a descriptor, and is not found", nil
}

// inheritors are processes that have a device open which they did not open themselves.
type inheritors struct {
	users []string
	roots bool // root has one
}

func (u *Look) inheritorsOf(known []int, is func(major, minor uint32) bool) (h inheritors, err error) {
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
