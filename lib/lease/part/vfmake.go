package part

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/kernel/udev"
	"gresnet/lib/link"
)

// Make makes the VFs of a PF, and gives them addresses that are the same after each boot. What is there
// already stays, so a second run completes the work of one that was killed.
func (vf) Make(ctx context.Context, m *Making) error {
	pf, count := m.Want.Match.Value, m.Want.Count
	now, total, err := sysfs.VFs(m.Sys, pf)
	if err == nil {
		err = sriov.Fits(pf, count, now, total)
	}
	if err != nil {
		return err
	}
	s := splitting{sys: m.Sys, pf: pf, made: now == 0, taken: m.Taken}
	err = try(ctx, poll.Driver, s.findPF)
	if err != nil {
		return err
	}
	watch, err := udev.Open("/run")
	if err != nil {
		return err
	}
	defer watch.Close()
	until, _ := ctx.Deadline()
	if s.made && len(s.taken) > 0 {
		return hint.With(fmt.Errorf("split %s: a job has VF %v of it, and the node has not", pf, slices.Sorted(maps.Keys(s.taken))), "GN325 gresnet status says what keeps the lease; boot splits the PF when that is gone")
	}
	if s.made {
		if err := sriov.PCI.Create(pf, count, until); err != nil {
			return err
		}
	}
	for vf := range count {
		if s.taken[vf] {
			continue
		}
		if err := s.give(ctx, vf); err != nil {
			return err
		}
	}
	if len(s.renewed) > 0 {
		m.Notice("%s is split into %d VFs, %d of them with a new address", pf, count, len(s.renewed))
	}
	return s.await(ctx, count, watch)
}

// splitting gives a PF's VFs their addresses.
type splitting struct {
	sys     fs.FS
	pf      string
	link    sriov.Link
	guid    string       // the PF's node GUID
	made    bool         // by this run: nobody else has given them an address yet
	taken   map[int]bool // VFs that leases have: they stay as they are
	renewed []int        // VFs with a new address
}

// findPF finds by what the PF's VFs are set, and of what their addresses are made.
func (s *splitting) findPF() (err error) {
	if s.link, err = sriov.FindLink(s.sys, s.pf); err != nil {
		return err
	}
	device, err := sysfs.RDMAOf(s.sys, s.pf)
	if err != nil {
		return err
	}
	s.guid, err = sysfs.NodeGUID(s.sys, device)
	return err
}

// give gives a VF its address, unless somebody else gave it one, and has its driver bind it again if
// the driver has not taken the address yet.
func (s *splitting) give(ctx context.Context, vf int) error {
	function, err := sysfs.VF(s.sys, s.pf, strconv.Itoa(vf))
	if err != nil {
		return fmt.Errorf("find VF %d of %s: %w", vf, s.pf, err)
	}
	until, _ := ctx.Deadline()
	lacks, err := s.lacks(vf, function)
	if err != nil {
		return err
	}
	bound, err := s.isBound(vf, function)
	if err != nil || !lacks && bound {
		return err
	}
	if lacks {
		if err := sriov.SetAddress(s.link, vf, s.link.AddressOf(s.guid, vf)); err != nil {
			return err
		}
	}
	s.renewed = append(s.renewed, vf)
	return sriov.PCI.Rebind(function, until)
}

// lacks tells whether a VF has no address that stays. A driver may have given a new VF a random one.
func (s *splitting) lacks(vf int, function string) (bool, error) {
	if s.link.InfiniBand {
		device, err := sysfs.RDMAOf(s.sys, function)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		guid, err := sysfs.NodeGUID(s.sys, device)
		return s.made || sriov.IsZero(guid), err
	}
	a, err := sriov.Read(s.link, vf)
	if err != nil {
		return false, err
	}
	return a.MAC == nil || s.made && *a.MAC != s.link.AddressOf(s.guid, vf).MAC, nil
}

// isBound tells whether a VF has a driver that has taken the MAC that boot told the PF. A boot that was
// killed before the new bind leaves a driver that gave the VF a random one. A new bind takes the interface's
// addresses, so a VF that the node may use stays as it is: one whose interface is up, or whose PF was told
// another MAC by somebody else.
func (s *splitting) isBound(vf int, function string) (bool, error) {
	bound, err := sysfs.HasDriver(s.sys, "pci/"+function)
	if err != nil || !bound || s.link.InfiniBand { // on InfiniBand the VF lacks its address until then
		return bound, err
	}
	a, err := sriov.Read(s.link, vf)
	if err != nil {
		return false, err
	}
	own := s.link.AddressOf(s.guid, vf).MAC
	if a.MAC == nil || *a.MAC != own {
		return true, nil
	}
	c, err := link.Dial()
	if err != nil {
		return false, err
	}
	defer c.Close()
	i, err := c.OfFunction(function)
	if errors.Is(err, link.ErrNotFound) {
		return true, nil // its driver makes none, or somebody has moved it
	}
	return i.Up || i.BoundWith() == own, err
}

// try tries until nothing fails, or the time is over, and returns the last error.
func try(ctx context.Context, bound poll.Bound, do func() error) (err error) {
	b := poll.Budget{Context: ctx}
	_, _ = b.Until(bound, func() (bool, error) { // no look fails
		err = do()
		return err == nil, nil
	})
	return err
}

// await waits until all VFs have their RDMA devices and interfaces, and udev has named them.
func (s *splitting) await(ctx context.Context, count int, watch *udev.Watch) error {
	return try(ctx, poll.VFs, func() error {
		missing, err := s.missing(count)
		if err == nil && missing == "" {
			idle, err := watch.Idle()
			if idle || err != nil {
				return err
			}
			missing = "udev, which is still busy"
		}
		if err != nil {
			return err
		}
		return hint.With(fmt.Errorf("split %s: waited in vain for %s", s.pf, missing), "GN326 see whether the driver of the VFs is loaded, and journalctl -k")
	})
}

// missing names what the VFs do not have yet; it is empty if they have all.
func (s *splitting) missing(count int) (string, error) {
	for vf := range count {
		if s.taken[vf] {
			continue
		}
		if missing, err := sriov.Missing(s.sys, s.pf, vf); err != nil || missing != "" {
			return missing, err
		}
	}
	return "", nil
}
