package metrics

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

// HCA is what a job's HCA, or its part of one, has counted since the prolog.
type HCA struct {
	Job, UID uint32
	Device   string // RDMA device
	Ports    []counters.Traffic

	IP *IP // of a part, whose port counts for all jobs that have parts
}

// IP is what a part's own interface has carried: no RDMA, which passes it by.
type IP struct {
	Interface                string
	SentBytes, ReceivedBytes uint64
}

// Found is what a look has found.
type Found struct {
	HCAs   []HCA
	Unread int // HCAs whose counters were not read in time
}

// look is one look at all jobs.
type look struct {
	node  *host.Host
	known *scan.Known
	mode  rdma.Mode
	host  *scan.View
	sys   []*sysfs.Mounted // of jobs' namespaces
	found Found
	asked []*asked
}

// asked is an HCA whose counters are read.
type asked struct {
	HCA
	id      node.ID
	before  []counters.Port
	folder  string
	reading counters.Reading
}

// ReadRunning reads the counters of all jobs' HCAs. An error about one job costs the others nothing. The calling
// thread must be in the node's namespace.
//
// In exclusive mode only a job's own namespace shows its RDMA devices, so a look goes there. It takes no lock
// that a prolog or an epilog wants, and leaves the namespace as soon as it has found the devices: it reads by
// a /sys that shows the namespace and does not keep it alive. A process for each HCA reads the counters, and
// is left behind if the HCA does not answer. While that stands still, later looks pass over the HCA.
func ReadRunning(n *host.Host) (Found, error) {
	l := look{node: n, known: scan.NewKnown()}
	host, err := scan.Open(n.Sys, l.known)
	if err != nil {
		return l.found, err
	}
	defer host.Close()
	l.host = host
	if l.mode, err = host.Mode(); err != nil && !errors.Is(err, rdma.ErrNoRDMA) {
		return l.found, err
	}
	jobs, err := n.Leased()
	if err != nil {
		return l.found, err
	}
	t, err := n.Table().Read()
	if err != nil {
		return l.found, err
	}
	defer func() {
		for _, s := range l.sys {
			s.Close()
		}
	}()
	for _, job := range jobs {
		err = hint.Join(err, l.lookAt(job, &t))
	}
	err = hint.Join(err, l.readAll())
	return l.found, err
}

// lookAt looks for the HCAs of a job that runs. Those of a lease that a prolog or an epilog is at work on
// are left alone.
func (l *look) lookAt(job uint32, t *table.Table) error {
	dir := l.node.State.Lease(job)
	if !dir.Counts() {
		return nil
	}
	undoLog, err := journal.Read(dir.Journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	of := HCA{Job: job}
	for _, c := range t.Of(job, undoLog.Header.Run) {
		of.UID = c.UID
	}
	whole, parts := journaled(undoLog, of)
	isInside := l.mode == rdma.Exclusive && len(whole) > 0
	if isInside || len(parts) > 0 {
		err = l.inside(dir.Netns(), func(v *scan.View, sys *sysfs.Mounted) {
			if isInside {
				find(v, whole)
			}
			for _, p := range parts {
				if ip := readIP(sys, p); ip != nil {
					c, _ := t.Holder(p.Of)
					part := of
					part.Device, part.IP = c.Name, ip
					l.found.HCAs = append(l.found.HCAs, part)
				}
			}
		})
	}
	find(l.host, whole) // what the job's namespace does not have
	l.asked = append(l.asked, whole...)
	return err
}

// journaled returns the HCAs that a job has as a whole by its journal, and the interfaces of its slots. Without counters
// from before, it is not known what an HCA counted for the job.
func journaled(undoLog *journal.Journal, of HCA) (whole []*asked, parts []*step.Child) {
	for _, entry := range undoLog.Entries {
		s, err := step.Decode(entry.Kind, entry.Data)
		if entry.Undone || err != nil {
			continue
		}
		switch s := s.(type) {
		case *step.Access:
			if !s.ID.IsSlot() && len(s.Counters) > 0 {
				a := &asked{HCA: of, id: s.ID, before: s.Counters}
				a.Device = s.Name
				whole = append(whole, a)
			}
		case *step.Child:
			if s.Of.IsSlot() {
				parts = append(parts, s)
			}
		}
	}
	return whole, parts
}

// inside calls f in a job's namespace with a /sys that shows it, if the job has one still.
func (l *look) inside(path string, f func(*scan.View, *sysfs.Mounted)) error {
	ns, err := netns.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, netns.ErrNotNetns) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(func() error {
		sys, err := sysfs.Mount()
		if err != nil {
			return err
		}
		l.sys = append(l.sys, sys)
		v, err := scan.Open(sys, l.known)
		if err != nil {
			return err
		}
		defer v.Close()
		f(v, sys)
		return nil
	})
}

// find finds the folders of HCAs that have none yet.
func find(v *scan.View, hcas []*asked) {
	for _, a := range hcas {
		if a.folder != "" {
			continue
		}
		if d, err := v.Glance(a.id); err == nil {
			a.Device, a.folder = d.Name, v.Folder(d.Name)
		}
	}
}

// readIP reads what a part's interface has carried; nil: the interface is not there.
func readIP(sys *sysfs.Mounted, part *step.Child) *IP {
	number := func(name string) (uint64, error) {
		text, err := sys.ReadFile("class/net/" + part.Name + "/" + name)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}
	index, err := number("ifindex")
	sent, sentErr := number("statistics/tx_bytes")
	received, receivedErr := number("statistics/rx_bytes")
	if hint.Join(err, sentErr, receivedErr) != nil || index != uint64(part.Index) {
		return nil
	}
	return &IP{part.Name, sent, received}
}

// readAll reads the counters of all HCAs that were found. All are waited for at once, or one that does not
// answer would cost those behind it, too.
func (l *look) readAll() (failed error) {
	gone := func(a *asked) bool { return a.folder == "" } // it is being returned, or is lost
	all := slices.DeleteFunc(l.asked, gone)
	unread := make([]bool, len(all))
	var ends sync.WaitGroup
	until := time.Now().Add(poll.Counters)
	for i, a := range all {
		switch err := a.begin(l.node.State.Locks()); {
		case errors.Is(err, state.ErrHeld):
			unread[i] = true
		case err != nil:
			unread[i] = true
			failed = hint.Join(failed, err)
		default:
			ends.Go(func() { unread[i] = a.end(until) != nil })
		}
	}
	ends.Wait()
	for i, a := range all {
		if unread[i] {
			l.found.Unread++
			continue
		}
		l.found.HCAs = append(l.found.HCAs, a.HCA)
	}
	return failed
}

// begin has a process of its own read the HCA's counters.
func (a *asked) begin(locks string) error {
	held, err := state.TryLockLook(locks, a.id)
	if err != nil {
		return err
	}
	a.reading, err = counters.BeginWith(held.File, []string{a.folder}, a.faults())
	return hint.Join(err, held.Close()) // the process holds it
}

// end takes what was read until then.
func (a *asked) end(until time.Time) error {
	ports, err := a.reading.End(until)
	if err == nil {
		a.Ports = counters.Between(a.before, ports[0])
	}
	return err
}

// faults names the counters of faults that were read before the job.
func (a *asked) faults() []string {
	names := map[string]bool{}
	for _, p := range a.before {
		for name := range p.Faults {
			names[name] = true
		}
	}
	return slices.Collect(maps.Keys(names))
}
