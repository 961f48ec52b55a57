package world

import (
	"errors"
	"fmt"
	"io/fs"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
)

// place is a network namespace that steps look at again and again. All of them use its one thread
// and its one view.
type place struct {
	ns     *netns.NS
	thread *netns.Thread // nil for the namespace that the process is in
	view   *scan.View

	// sys is the namespace's own /sys, and own the view with it; nil until a step needs them.
	sys *sysfs.Mounted
	own *scan.View
}

func enter(ns *netns.NS, sys fs.FS, known *scan.Known) (*place, error) {
	thread, err := ns.Enter()
	if err != nil {
		return nil, err
	}
	p := &place{ns: ns, thread: thread}
	err = p.do(func() (err error) {
		p.view, err = scan.Open(sys, known)
		return err
	})
	if err != nil {
		thread.Close()
		return nil, err
	}
	return p, nil
}

func (p *place) do(f func() error) error {
	if p.thread == nil {
		return f()
	}
	return p.thread.Do(f)
}

func (p *place) leave() {
	p.view.Close()
	if p.sys != nil {
		p.sys.Close()
	}
	if p.thread != nil {
		p.thread.Close()
	}
}

// withSysfs mounts a /sys that shows the place's namespace.
func (p *place) withSysfs() (err error) {
	if p.own != nil {
		return nil
	}
	if p.sys == nil {
		if p.sys, err = sysfs.Mount(); err != nil {
			return err
		}
	}
	p.own, err = p.view.With(p.sys)
	return err
}

// OnHost looks at the node's root namespace. This process was started there, and its main goroutine
// never leaves it, see package netns.
func (w *World) OnHost(f func(*scan.View) error) error {
	if w.host == nil {
		view, err := scan.Open(w.Sys, w.hints())
		if err != nil {
			return err
		}
		w.host = &place{ns: w.Root, view: view}
	}
	return f(w.host.view)
}

// ErrNoNamespace means that the lease has no namespace, or none any more.
var ErrNoNamespace = errors.New("the job has no network namespace")

// openJob enters the job's namespace; a lease without one is ErrNoNamespace.
func (w *World) openJob() (*place, error) {
	if w.job != nil {
		return w.job, nil
	}
	ns, err := netns.Open(w.Dir.Netns())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, netns.ErrNotNetns) {
		return nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	if err != nil {
		return nil, err
	}
	if w.job, err = enter(ns, w.Sys, w.hints()); err != nil {
		ns.Close()
	}
	return w.job, err
}

// JobNS returns the job's namespace; a lease without one is ErrNoNamespace.
func (w *World) JobNS() (*netns.NS, error) {
	p, err := w.openJob()
	if err != nil {
		return nil, err
	}
	return p.ns, nil
}

// Namespace returns the job's namespace by device and inode, empty if the job has none.
func (w *World) Namespace() (string, error) {
	job, err := w.openJob()
	if errors.Is(err, ErrNoNamespace) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return job.ns.String(), nil
}

// InJob looks at the job's namespace; a lease without one is ErrNoNamespace.
func (w *World) InJob(f func(*scan.View) error) error {
	p, err := w.openJob()
	if err != nil {
		return err
	}
	return p.do(func() error { return f(p.view) })
}

// InJobWithSysfs is InJob with a /sys that shows the job's namespace.
func (w *World) InJobWithSysfs(f func(*scan.View) error) error {
	p, err := w.openJob()
	if err != nil {
		return err
	}
	return p.do(func() error {
		if err := p.withSysfs(); err != nil {
			return err
		}
		return f(p.own)
	})
}

// WithHCAs looks at the namespace that has the job's RDMA devices, with a /sys that shows it. In
// shared mode that is the node's.
func (w *World) WithHCAs(mode rdma.Mode, f func(*scan.View) error) error {
	if mode == rdma.Shared {
		return w.OnHost(f)
	}
	return w.InJobWithSysfs(f)
}

// hints returns what all places of this run know.
func (w *World) hints() *scan.Known {
	if w.known == nil {
		w.known = scan.NewKnown()
		w.known.Budget = &w.Budget
	}
	return w.known
}

// LeaveJob leaves the job's namespace, which lives as long as anybody is inside.
func (w *World) LeaveJob() {
	if w.job != nil {
		w.job.leave()
		w.job.ns.Close()
		w.job = nil
	}
}

// Close leaves all namespaces.
func (w *World) Close() {
	w.LeaveJob()
	if w.arrivals != nil {
		w.arrivals.Close()
		w.arrivals = nil
	}
	if w.host != nil {
		w.host.leave()
		w.host = nil
	}
}
