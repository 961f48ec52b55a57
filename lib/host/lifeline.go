package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"gresnet/lib/gres"
	"gresnet/lib/slurm"
)

// lifeline is an address without which Slurm loses the node.
type lifeline struct {
	what string // for people: "NodeAddr node1 (10.0.0.2)"
	addr netip.Addr
	own  bool // the node's own address; else one that it must reach
}

// How long slurm.conf is read, and then its names are looked up, all at once. A name that
// has no answer by then protects no HCA, and keeps no job waiting. A file that is not read
// protects none at all, so it is given more than a busy node needs.
const (
	readTime   = 5 * time.Second
	lookupTime = time.Second
)

// findLifelines are the node's own address and those of slurmctld, as slurm.conf has them.
// unknown is what cannot be told. slurm.conf may be on a file system whose server is away.
func (n *Host) findLifelines(ctx context.Context) (list []lifeline, unknown []error) {
	if n.Files == nil {
		return nil, nil
	}
	reading, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	read := make(chan []named, 1)
	failed := make(chan error, 1)
	go func() {
		names, err := n.named()
		if err != nil {
			failed <- err
			return
		}
		read <- names
	}()
	select {
	case names := <-read:
		return n.resolve(ctx, names)
	case err := <-failed:
		return nil, []error{err}
	case <-reading.Done():
		return nil, []error{errors.New("read slurm.conf: no answer in time")}
	}
}

// named is a lifeline as slurm.conf has it: by an address, or by a name.
type named struct {
	key, value string
	own        bool
}

// named reads slurm.conf. A node that it does not have, as a dynamic one, has its name for
// an address.
func (n *Host) named() ([]named, error) {
	file := n.Slurm.Conf
	for _, place := range slurm.Places() {
		if _, err := fs.Stat(n.Files, strings.TrimPrefix(place, "/")); file == "" && err == nil {
			file = place
		}
	}
	if file == "" {
		return nil, fmt.Errorf("read slurm.conf: it is in none of %s", strings.Join(slurm.Places(), ", "))
	}
	conf, err := slurm.Read(n.Files, file)
	if err != nil {
		return nil, err
	}
	var list []named
	if n.Slurm.Name != "" {
		host := conf.Hosts([]string{n.Slurm.Name})[n.Slurm.Name]
		list = append(list, named{"NodeAddr", cmp.Or(host.Addr, host.Hostname, n.Slurm.Name), true})
	}
	for _, c := range conf.ControllerAddrs() {
		list = append(list, named{c.Key, c.Value, false})
	}
	return list, nil
}

// resolve looks up all names at once.
func (n *Host) resolve(ctx context.Context, names []named) (list []lifeline, unknown []error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found := make([][]netip.Addr, len(names))
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if addr, err := netip.ParseAddr(name.value); err == nil {
			found[i] = []netip.Addr{addr}
			continue
		}
		all.Go(func() { found[i], failed[i] = n.lookUp(ctx, name.value) })
	}
	all.Wait()
	for i, name := range names {
		if failed[i] != nil {
			unknown = append(unknown, fmt.Errorf("look up %s %s: %w", name.key, name.value, failed[i]))
		}
		for _, addr := range found[i] {
			what := name.key + " " + name.value
			if addr = addr.Unmap(); addr.String() != name.value {
				what += fmt.Sprintf(" (%s)", addr)
			}
			list = append(list, lifeline{what, addr, name.own})
		}
	}
	return list, unknown
}

func (n *Host) lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	if n.Slurm.Resolve != nil {
		return n.Slurm.Resolve(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// FindLifelines finds the addresses that the node itself must have or reach. unknown is what
// cannot be told of them.
func (l *Look) FindLifelines(ctx context.Context) (unknown []error) {
	l.lifelines, unknown = l.Host.findLifelines(ctx)
	return unknown
}

// lookForLifelines finds them if the job is to have an interface that could lead to them.
func (l *Look) lookForLifelines(p Picked) {
	if !slices.ContainsFunc(p.Entries, func(e gres.Entry) bool { return !e.Take && e.Slot == nil }) {
		return
	}
	for _, err := range l.FindLifelines(l.World.Context) {
		l.Host.Notice(l.World.Job, "jobs can get an HCA that leads there: %s", err)
	}
}
