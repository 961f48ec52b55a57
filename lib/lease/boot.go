package lease

import (
	"context"
	"errors"
	"fmt"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/part"
	"gresnet/lib/state/table"
)

// Boot prepares the node before slurmd starts. It returns all leases that are left, because
// their namespaces keep the kernel from changing the mode; then sets the RDMA netns mode that the
// configuration wants, if it wants one; splits the PFs that it gives in parts; loads the programs of the node's
// ports; and restricts the HCAs' device nodes, if it wants that.
func (n *Host) Boot(ctx context.Context) error {
	failed := n.Cleanup(ctx, Cleanup{Boot: true})
	failed = hint.Join(failed, n.Redo())
	if mode := n.Config.RDMA.Mode; mode != "" {
		failed = hint.Join(failed, n.setMode(ctx, rdma.Mode(mode)))
	}
	failed = hint.Join(failed, n.split(ctx))
	restoreLost(ctx, n.Host, true) // VFs that the node had lost are there again
	n.keepPorts(ctx)
	return hint.Join(failed, n.RestrictNodes(ctx))
}

// keepPorts loads the programs that share out the node's ports, so that no prolog has to. If it cannot, the first
// job's prolog tries again.
func (n *Host) keepPorts(ctx context.Context) {
	if n.Config.Uplink.Kind != config.UplinkAuto {
		return
	}
	err := n.Table().Update(ctx, func(t *table.Table) error {
		if len(t.Hooked) > 0 {
			return nil // a job has them
		}
		return ports.In(n.Guard.Pins).Keep()
	})
	if err != nil {
		n.Notice(0, "load the programs of the node's ports: %s", err)
	}
}

// dropPorts undoes keepPorts.
func (n *Host) dropPorts(ctx context.Context) error {
	return n.Table().Update(ctx, func(t *table.Table) error {
		if len(t.Hooked) > 0 {
			return nil // the next run that finds no job ends it
		}
		return ports.In(n.Guard.Pins).Forget()
	})
}

// setMode sets the node's RDMA netns mode.
func (n *Host) setMode(ctx context.Context, mode rdma.Mode) error {
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return err
	}
	defer v.Close()
	before, err := v.Mode()
	if err != nil || before == mode {
		return err
	}
	b := poll.Budget{Context: ctx}
	if err := b.Try(poll.Mode, rdma.ErrBusy, func() error { return v.SetMode(mode) }); err != nil {
		return busy(mode, err)
	}
	n.Tell(event.ModeSet, 0, "the RDMA netns mode is %s, it was %s", mode, before)
	return nil
}

// busy says to an error how other network namespaces are kept from keeping the mode.
func busy(mode rdma.Mode, err error) error {
	err = fmt.Errorf("set the RDMA netns mode to %s: %w", mode, err)
	if !errors.Is(err, rdma.ErrBusy) {
		return err
	}
	return hint.With(err, "GN205 lsns -t net says who has others; let units with PrivateNetwork= and containers start after gresnet.service, and reboot; or load ib_core in that mode: modprobe.conf of gresnet says how")
}

// split makes the parts of HCAs that the configuration gives to jobs, where they are RDMA devices of their own.
func (n *Host) split(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Split)
	defer cancel()
	var failed []error
	for _, h := range n.Config.HCAs {
		if !h.Kind().Splits() {
			continue
		}
		t, err := n.Table().Read()
		if err == nil {
			err = part.Of(h.Kind()).Make(ctx, &part.Making{
				Sys: n.Sys, Want: h, Taken: takenOf(&t, h, Lost(n.Host)),
				Notice: func(format string, args ...any) { n.Notice(0, format, args...) },
			})
		}
		failed = append(failed, err)
	}
	return hint.Join(failed...)
}

// takenOf returns the numbers of the parts of an HCA that leases have. A lease that ended when the
// node lost the part has it no more: the part must be made again before it can get its settings.
func takenOf(t *table.Table, h config.HCA, lost func(table.Claim) bool) map[int]bool {
	taken := map[int]bool{}
	for _, c := range t.Claims {
		if number, is := h.Kind().PartOf(c.HCA, h.Match.Value); is && !lost(c) {
			taken[number] = true
		}
	}
	return taken
}
