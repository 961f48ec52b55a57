package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sharer is a cgroup whose processes may open a device that several jobs have. A second map has
// them. It is there only while there are such devices, so a node without any has the guard of older
// versions.
//
// The prolog adds a sharer with a cgroup that there is not, expected. The SPANK plugin adds the
// job's own beside it, and takes that away again if the first is gone by then: so an epilog that
// removes the first one first leaves none.
type sharer struct {
	Device
	Cgroup uint64
}

// holder is the map's value for a sharer.
type holder struct {
	Job      uint32
	Required uint32 // not 0: the device is never anybody's
}

// none stands for a map that there is not.
const none = object(-1)

// expected stands for a job's cgroup until there is one.
func expected(job uint32) uint64 { return 1<<63 | uint64(job) }

func (g Guard) sharers() string { return filepath.Join(g.Pins, "sharers") }

// Share is Protect for devices that other jobs have, too.
func (g Guard) Share(job uint32, devices []Device, required bool) error {
	m, err := g.attach()
	if err != nil {
		return fmt.Errorf("guard device nodes: %w", err)
	}
	defer m.Close()
	s, err := g.attachSharers(m)
	if err != nil {
		return fmt.Errorf("guard device nodes: %w", err)
	}
	defer s.Close()
	h := holder{Job: job}
	if required {
		h.Required = 1
	}
	for _, d := range devices {
		// In this order: the device stays as it was if a kill comes in between.
		err := put(s, sharer{d, expected(job)}, h)
		if err == nil {
			err = put(m, d, entry{Cgroup: several})
		}
		if err != nil {
			return fmt.Errorf("guard device %d:%d: %w", d.Major, d.Minor, err)
		}
	}
	return nil
}

// Shared tells whether a device opens for its sharers only.
func (g Guard) Shared(d Device) (bool, error) {
	roots, err := isRoots(g.Pins)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !roots {
		return false, nil // it is no guard of ours
	}
	if err != nil {
		return false, err
	}
	m, err := g.open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer m.Close()
	e, err := get[Device, entry](m, d)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the guard of device %d:%d: %w", d.Major, d.Minor, err)
	}
	return e.Cgroup == several, nil
}

// attachSharers makes the map of sharers, and a program that knows it, if there is none. The map's
// pin comes last: while there is one, the program knows the map.
func (g Guard) attachSharers(m object) (object, error) {
	s, err := openPin(g.sharers())
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s, err = newMap[sharer, holder](); err != nil {
		return 0, err
	}
	if err = g.replaceProgram(m, s); err == nil {
		err = s.pin(g.sharers())
	}
	if err != nil {
		s.Close()
		return 0, err
	}
	return s, nil
}

// unshare removes a job's sharers, and the devices that no job shares any more. With the last of
// them goes the map of sharers.
func (g Guard) unshare(m object, job uint32) error {
	left, err := g.removeSharers(job)
	if err != nil {
		return err
	}
	shared := map[Device]bool{}
	for _, k := range left {
		shared[k.Device] = true
	}
	devices, err := keys[Device](m)
	if err != nil {
		return err
	}
	for _, d := range devices {
		e, err := get[Device, entry](m, d)
		if err == nil && e.Cgroup == several && !shared[d] {
			err = remove(m, d)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if len(left) > 0 {
		return nil
	}
	return unlink(g.sharers())
}

// removeSharers removes a job's sharers, and returns those of others.
func (g Guard) removeSharers(job uint32) (left []sharer, err error) {
	s, err := openPin(g.sharers())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// The one by which the plugin knows the job goes first. A look may miss one that the plugin
	// writes meanwhile.
	for _, first := range []bool{true, false} {
		for found := true; found; {
			if found, left, err = removeSome(s, job, first); err != nil {
				return nil, err
			}
		}
	}
	return left, nil
}

func removeSome(s object, job uint32, first bool) (found bool, left []sharer, err error) {
	list, err := keys[sharer](s)
	if err != nil {
		return false, nil, err
	}
	for _, k := range list {
		h, err := get[sharer, holder](s, k)
		switch {
		case err == nil && h.Job == job && (!first || k.Cgroup == expected(job)):
			found = true
			err = remove(s, k)
		case err == nil:
			left = append(left, k)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return false, nil, err
		}
	}
	return found, left, nil
}
