package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/hca/gres"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/slurm"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/poll"
)

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
		return nil, []error{hint.With(fmt.Errorf("find what the node itself needs: %w", a.err), "GN400 correct what Slurm does not read, or set SLURM_CONF to the file's path: gresnet check")}
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
const needs = "what the node itself needs"

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

// protectUnknown refuses an interface of which the guard cannot tell whether the node needs it.
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
