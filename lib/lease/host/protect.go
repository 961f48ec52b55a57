package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/plain"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/slurm"
)

// takeHint says what lets a job have an interface that the node needs.
const takeHint = `GN194 if jobs are to have it all the same, set node = "take" in its [[hca]]; interface = "keep" leaves the interface where it is`

// protectNode refuses an interface that the node itself cannot do without: that of its
// default route, one with the address by which Slurm knows the node, the way to
// slurmctld, and the way to a file system or a disk that the node has from elsewhere.
func (l *Look) protectNode(v *scan.View, index int, s snapshot.Settings) error {
	defaultRoute, err := v.Link.CarriesDefaultRoute(index, s)
	if err != nil {
		return err
	}
	if defaultRoute {
		return hint.With(fmt.Errorf("the node's default route needs %s", s.Name), takeHint)
	}
	for _, line := range l.lifelines {
		if err := line.protect(v, index, s.Name); err != nil {
			return err
		}
	}
	if err := l.protectStorage(v, index, s.Name); err != nil {
		return err
	}
	return l.protectUnknown(s.Name)
}

// needs tells whether the node cannot do without an interface, or a move would lose what cannot be restored.
func (l *Look) needs(v *scan.View, i link.Interface) bool {
	s, err := v.Link.Settings(i.Index)
	return err != nil || l.protectNode(v, i.Index, s) != nil
}

// protect refuses an interface that has the lifeline's address, or by which the node reaches it.
func (line lifeline) protect(v *scan.View, index int, name string) error {
	carries, err := v.Link.Carries(index, line.addr)
	if err != nil {
		return err
	}
	if carries {
		return hint.With(fmt.Errorf("%s has the address of %s", name, line.what), takeHint)
	}
	leads, err := v.Link.Leads(index, line.addr)
	if err != nil {
		return err
	}
	if leads && !line.own {
		return hint.With(fmt.Errorf("the node reaches %s through %s", line.what, name), takeHint)
	}
	return nil
}

// protectStorage refuses an interface by which the node has an iSCSI disk or a mounted file system. A file system is no
// fault of the node's: root mounts one when a user looks at a path of autofs.
func (l *Look) protectStorage(v *scan.View, index int, name string) error {
	if err := l.findStorage(); err != nil {
		return err
	}
	for _, s := range l.storage {
		leads, err := v.Link.Leads(index, s.from)
		if err != nil {
			return err
		}
		if leads {
			err := fmt.Errorf("the node has %s from %s through %s", s.what, s.from, name)
			if s.mounted {
				return &gres.Refusal{Ask: name, Why: err.Error(), Do: takeHint}
			}
			return hint.With(err, takeHint)
		}
	}
	return nil
}

// storage is a disk or a mounted file system that the node has from elsewhere.
type storage struct {
	what    string // for people
	from    netip.Addr
	mounted bool // it is a file system
}

// findStorage lists the node's storage, once for all interfaces: a node may have thousands of mounts.
func (l *Look) findStorage() error {
	if l.storage != nil {
		return nil
	}
	mounted, err := servers()
	if err != nil {
		return err
	}
	targets, err := sysfs.Targets(l.World.Sys)
	if err != nil {
		return err
	}
	l.storage = []storage{}
	for _, addr := range targets {
		l.storage = append(l.storage, storage{what: "an iSCSI disk", from: addr})
	}
	for _, addr := range sysfs.NVMeTargets(l.World.Sys) {
		l.storage = append(l.storage, storage{what: "an NVMe disk", from: addr})
	}
	for _, server := range mounted {
		l.storage = append(l.storage, storage{plain.Name(server.Point), server.Addr, true})
	}
	return nil
}

// lifeline is an address without which Slurm loses the node.
type lifeline struct {
	what string // for people: "NodeAddr node1 (10.0.0.2)"
	addr netip.Addr
	own  bool // the node's own address; else one that it must reach
}

// findLifelines are the node's own address and those of slurmctld, as slurm.conf has them.
// unknown is what cannot be told. slurm.conf may be on a file system whose server is away.
func (n *Host) findLifelines(ctx context.Context) (list []lifeline, unknown []error) {
	if n.Files == nil {
		return nil, nil
	}
	type answer struct {
		names []slurm.Pair
		err   error
	}
	a, read := poll.Within(ctx, poll.SlurmConf, func() answer {
		names, err := slurm.Needs(n.Files, n.Slurm.Conf, n.Slurm.Name)
		return answer{names, err}
	})
	switch {
	case a.err != nil:
		return nil, []error{hint.With(fmt.Errorf("find what is reserved for the host: %w", a.err), "GN400 correct what Slurm does not read, or set SLURM_CONF to the file's path: gresnet check")}
	case !read:
		return nil, []error{&gres.Refusal{
			Reason: gres.NoAnswer, Ask: needs, Why: "read slurm.conf: no answer in time",
			Do: "GN401 see whether the file system with slurm.conf answers: stat -f, mount",
		}}
	}
	return n.resolve(ctx, a.names)
}

// needs is what a job is refused for while no server tells it. The server may be away for a minute, and
// users can keep it busy: it is no fault of the node's.
const needs = "what is reserved for the host"

// resolve looks up all names at once.
func (n *Host) resolve(ctx context.Context, names []slurm.Pair) (list []lifeline, unknown []error) {
	ctx, cancel := context.WithTimeout(ctx, poll.Resolver)
	defer cancel()
	look := n.Slurm.Resolve
	if look == nil {
		look = jobnet.Resolve
	}
	var asked []string
	for _, name := range names {
		asked = append(asked, name.Value)
	}
	found, failed := jobnet.Find(ctx, asked, look)
	for i, name := range names {
		if failed[i] != nil {
			unknown = append(unknown, &gres.Refusal{
				Reason: gres.NoAnswer, Ask: needs, Why: fmt.Sprintf("look up %s %s: %s", name.Key, name.Value, failed[i]),
				Do: "GN402 give the name an address in /etc/hosts, or slurm.conf an address instead of the name; or set node = \"take\" in the [[hca]] if the node does without its interface",
			})
		}
		for _, addr := range found[i] {
			what := name.Key + " " + name.Value
			if addr.String() != name.Value {
				what += fmt.Sprintf(" (%s)", addr)
			}
			list = append(list, lifeline{what, addr, name.Key == slurm.NodeAddr})
		}
	}
	return list, unknown
}

// FindLifelines finds the addresses that the node itself must have or reach. unknown is what
// cannot be told of them.
func (l *Look) FindLifelines(ctx context.Context) (unknown []error) {
	l.lifelines, l.unknown = l.Host.findLifelines(ctx)
	return l.unknown
}

// lookForLifelines finds them if the job is to have an interface that could lead to them.
func (l *Look) lookForLifelines(p Picked) {
	if slices.ContainsFunc(p.Entries, func(e gres.Entry) bool { return !e.Take && e.Slot == nil }) {
		l.FindLifelines(l.World.Context)
	}
}

// protectUnknown refuses an interface while an address that the node needs is not known: it may lead there.
func (l *Look) protectUnknown(name string) error {
	if len(l.unknown) == 0 {
		return nil
	}
	err := l.unknown[0]
	if r := new(gres.Refusal); errors.As(err, &r) {
		refused := *r
		refused.Ask = fmt.Sprintf("%s stays on the node until %s is known", name, r.Ask)
		return &refused
	}
	return fmt.Errorf("move %s: %w", name, err)
}
