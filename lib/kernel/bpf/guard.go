// Package bpf loads BPF programs, and has the guard, which decides which
// processes may open the device nodes of HCAs that jobs have.
//
// Modes of device nodes tell users apart, not jobs, and what a mount hides is
// reached through /proc/PID/root by another process of the same user. The
// guard tells jobs apart by their cgroups. It hangs on the root of the cgroup
// tree, with all processes below it: those of other jobs, and those that
// their user has outside of any. It allows others beside it (BPF_F_ALLOW_MULTI,
// which links imply), so that those of systemd and Slurm further down stay what
// they are: all must allow (kernel/bpf/cgroup.c:compute_effective_progs).
//
// A map has the devices that are guarded. Both are pinned, so that they outlive
// the program that made them, and are there only while any device is guarded.
package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// Guard is where the guard is.
type Guard struct {
	Pins   string // the directory of its pins, on a BPF file system
	Cgroup string // the root of the cgroup tree
}

// Node returns the node's guard. The SPANK plugin knows its place, too.
func Node() Guard { return Guard{Pins: "/sys/fs/bpf/gresnet", Cgroup: "/sys/fs/cgroup"} }

// Device is a character device.
type Device struct {
	Major, Minor uint32
}

// entry is the map's value for a device. The SPANK plugin writes Cgroup.
type entry struct {
	Cgroup   uint64 // whose processes may open it
	Job      uint32
	Required uint32 // not 0: it is never anybody's
}

// What stands for a cgroup that there is not.
const (
	nobody = 0
	// anybody is what the plugin writes for a job that has no cgroup of its own.
	anybody = ^uint64(0)
	// several says that the processes of several jobs may open it: see sharer.
	several = ^uint64(1)
)

// most devices that can be guarded at one time.
const most = 4096

func (g Guard) devices() string { return filepath.Join(g.Pins, "devices") }
func (g Guard) program() string { return filepath.Join(g.Pins, "program") }

// Protect keeps everybody but root from devices, until the job's cgroup is
// known. No other process may call it or Forget at the same time.
func (g Guard) Protect(job uint32, devices []Device, required bool) error {
	m, err := g.attach()
	if err != nil {
		return fmt.Errorf("guard device nodes: %w", err)
	}
	defer m.Close()
	e := entry{Cgroup: nobody, Job: job}
	if required {
		e.Required = 1
	}
	for _, d := range devices {
		if err := put(m, d, e); err != nil {
			return fmt.Errorf("guard device %d:%d: %w", d.Major, d.Minor, err)
		}
	}
	return nil
}

// attach makes what there is not yet of the guard. A program that is there
// without its map judges by another one, which no program can reach any more.
func (g Guard) attach() (object, error) {
	if err := g.Possible(); err != nil {
		return 0, err
	}
	if err := MakeFolder(g.Pins); err != nil {
		return 0, err
	}
	m, err := g.open()
	if errors.Is(err, fs.ErrNotExist) {
		m, err = g.makeMap()
	}
	if err != nil {
		return 0, err
	}
	if err := g.attachProgram(m); err != nil {
		return 0, hint.Join(err, m.Close())
	}
	return m, nil
}

// MakeFolder makes a directory of pins, root's alone. Where others may write to the file system,
// its name can be a user's already, with a map and a program of that user's in it.
func MakeFolder(path string) error {
	for range 3 {
		err := os.Mkdir(path, 0o700)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		roots, err := isRoots(path)
		if err != nil {
			return err
		}
		if roots {
			return os.Chmod(path, 0o700)
		}
		aside := fmt.Sprintf("%s-not-roots-%d", path, time.Now().UnixNano())
		if err := os.Rename(path, aside); err != nil {
			return fmt.Errorf("set aside what is not root's: %w", err)
		}
		// It guards nothing any more.
		_ = os.RemoveAll(aside)
	}
	return fmt.Errorf("%s is a user's, and comes again", path)
}

// RemoveFolder removes a directory of pins that has none any more.
func RemoveFolder(path string) error {
	if err := unlink(path); !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// isRoots tells a directory of pins that root has made.
func isRoots(path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Uid == 0 && st.Mode&0o022 == 0, nil
}

func (g Guard) makeMap() (object, error) {
	if err := g.detachProgram(); err != nil {
		return 0, err
	}
	m, err := newMap[Device, entry]()
	if err != nil {
		return 0, err
	}
	if err := m.pin(g.devices()); err != nil {
		return 0, hint.Join(err, m.Close())
	}
	return m, nil
}

// open opens the map. Without the right to use BPF, as in a container, the
// kernel does not even say that there is none (kernel/bpf/syscall.c:__sys_bpf).
func (g Guard) open() (object, error) {
	if _, err := os.Lstat(g.devices()); err != nil {
		return 0, err
	}
	return openPin(g.devices())
}

// attachProgram attaches the program and pins it, with the map of sharers if there is one, unless
// a program is there.
func (g Guard) attachProgram(m object) error {
	if _, err := os.Lstat(g.program()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s, err := openPin(g.sharers())
	if errors.Is(err, fs.ErrNotExist) {
		return g.replaceProgram(m, none)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	return g.replaceProgram(m, s)
}

// replaceProgram attaches a program and pins it. A program that is there gives way to it in one
// step of the kernel (kernel/bpf/cgroup.c:__cgroup_bpf_replace), so other jobs' devices are guarded
// wherever a kill ends this process. Without one, a kill before the pin leaves what was there
// before: the kernel detaches a link that no process has open.
func (g Guard) replaceProgram(m, sharers object) error {
	p, err := newProgram(m, sharers)
	if err != nil {
		return err
	}
	defer p.Close()
	switch err := g.updateProgram(p); {
	case errors.Is(err, unix.ENOLINK): // the pin is of a link that somebody has detached
		if err := unlink(g.program()); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	cgroup, err := os.Open(g.Cgroup)
	if err != nil {
		return err
	}
	defer cgroup.Close()
	l, err := newLink(p, int(cgroup.Fd()))
	if err != nil {
		return fmt.Errorf("attach a program to %s: %w", g.Cgroup, err)
	}
	defer l.Close()
	return l.pin(g.program())
}

// updateProgram gives the pinned link another program.
func (g Guard) updateProgram(p object) error {
	l, err := openPin(g.program())
	if err != nil {
		return err
	}
	defer l.Close()
	return at("replace the program of", g.program(), l.update(p))
}

// Forget lets everybody open what is guarded for a job, and takes the guard
// away with the last device. If devices of others are left without a program,
// it attaches one again.
func (g Guard) Forget(job uint32) error {
	roots, err := isRoots(g.Pins)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !roots {
		return nil // it is no guard of ours
	}
	if err != nil {
		return err
	}
	last := true
	m, err := g.open()
	switch {
	case err == nil:
		defer m.Close()
		if err = g.unshare(m, job); err == nil {
			last, err = forget(m, job)
		}
		if err == nil && !last {
			err = g.attachProgram(m)
		}
		if err != nil {
			return fmt.Errorf("end the guard of device nodes: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if !last {
		return nil
	}
	// The directory goes last: what is in it is not found without.
	return hint.Join(g.detachProgram(), unlink(g.sharers()), unlink(g.devices()), RemoveFolder(g.Pins))
}

// detachProgram ends the program at once. Without its pin it ends by itself, but
// some time after: the kernel lets go of a file system's objects later
// (kernel/bpf/inode.c:bpf_free_inode).
func (g Guard) detachProgram() error {
	if _, err := os.Lstat(g.program()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l, err := openPin(g.program())
	if err != nil {
		return err
	}
	defer l.Close()
	// In this order: a pin of what is detached would be taken for the guard.
	if err := unlink(g.program()); err != nil {
		return err
	}
	return l.detach()
}

// forget removes a job's devices from the map, and tells whether any are left.
func forget(m object, job uint32) (empty bool, err error) {
	// Until a look finds none of them: it may miss one that the plugin writes meanwhile.
	for found := true; found; {
		if found, err = forgetSome(m, job); err != nil {
			return false, err
		}
	}
	_, err = next[Device](m, nil)
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	return false, err
}

func forgetSome(m object, job uint32) (found bool, err error) {
	list, err := keys[Device](m)
	if err != nil {
		return false, err
	}
	for _, d := range list {
		e, err := get[Device, entry](m, d)
		if err == nil && e.Job == job {
			found = true
			err = remove(m, d)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return false, err
		}
	}
	return found, nil
}

func unlink(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Possible says why the node can have no guard, nothing if it can, as far as
// that can be told without making one.
func (g Guard) Possible() error {
	if err := isMounted(g.Cgroup, unix.CGROUP2_SUPER_MAGIC, "is not cgroup v2's root", "GN016 boot with systemd.unified_cgroup_hierarchy=1"); err != nil {
		return err
	}
	return CanPin(filepath.Dir(g.Pins))
}

// CanPin says why root can pin nothing in a folder that stays there, if it cannot: it must be of a BPF file system, and
// users must not take away what is in it.
func CanPin(dir string) error {
	if err := isMounted(dir, unix.BPF_FS_MAGIC, "is no BPF file system", "GN017 mount -t bpf -o mode=700 bpf "+dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Uid != 0 || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return hint.With(fmt.Errorf("others than root may rename what is in %s", dir), "GN054 mount -o remount,mode=700 "+dir)
	}
	return nil
}

// isMounted says that a folder is of another kind of file system, if it is.
func isMounted(path string, magic int64, not, do string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if int64(st.Type) != magic {
		return hint.With(fmt.Errorf("%s %s", path, not), do)
	}
	return nil
}

// Try says why the node can have no guard, after it loaded one that it did not attach.
func (g Guard) Try() error {
	if err := g.Possible(); err != nil {
		return err
	}
	m, err := newMap[Device, entry]()
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := newProgram(m, none)
	if err != nil {
		return err
	}
	return p.Close()
}
