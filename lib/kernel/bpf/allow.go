package bpf

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Allow lets the processes of a cgroup open the devices that are guarded for a job, as the SPANK plugin does
// for jobs of Slurm (spank/guard.c). guarded tells whether there are any.
func (g Guard) Allow(job uint32, cgroup uint64) (guarded bool, err error) {
	m, err := g.open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the guard's map: %w", err)
	}
	defer m.Close()
	list, err := keys[Device](m)
	if err != nil {
		return false, err
	}
	for _, d := range list {
		e, err := get[Device, entry](m, d)
		if errors.Is(err, unix.ENOENT) || err == nil && e.Job != job {
			continue
		}
		guarded, e.Cgroup = true, cgroup
		if err == nil {
			err = put(m, d, e)
		}
		if err != nil {
			return true, fmt.Errorf("allow device %d:%d: %w", d.Major, d.Minor, err)
		}
	}
	shares, err := g.allowShared(job, cgroup)
	return guarded || shares, err
}

// allowShared allows the devices that other jobs may have, too.
func (g Guard) allowShared(job uint32, cgroup uint64) (guarded bool, err error) {
	s, err := openPin(g.sharers())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the guard's map of sharers: %w", err)
	}
	defer s.Close()
	list, err := keys[sharer](s)
	if err != nil {
		return false, err
	}
	for _, k := range list {
		if k.Cgroup != expected(job) {
			continue
		}
		guarded = true
		h, err := get[sharer, holder](s, k)
		if err == nil {
			err = put(s, sharer{k.Device, cgroup}, h)
		}
		if err != nil {
			return true, fmt.Errorf("allow device %d:%d: %w", k.Major, k.Minor, err)
		}
	}
	return guarded, nil
}
