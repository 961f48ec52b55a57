package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"gresnet/lib/char"
	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/netlink"
	"gresnet/lib/parts"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/snapshot"
	"gresnet/lib/sriov"
	"gresnet/lib/step"
	"gresnet/lib/sysfs"
)

// readVF returns what the PF of a VF is to do for it and what it does now; nil if the HCA is no VF.
func (l *Look) readVF(mode rdma.Mode, d scan.Device, e gres.Entry) (*step.VF, error) {
	if d.ID.VF == "" {
		return nil, nil
	}
	s := &step.VF{ID: d.ID, Name: d.Name}
	wanted, readdress := e.VF, e.VF.Address == config.AddressJob
	wanted.Address = ""
	idle := wanted == config.VF{} && !readdress
	pf, err := sriov.FindLink(l.Host.Sys, d.ID.PCI)
	if errors.Is(err, sriov.ErrNoLink) && idle {
		return s, nil // nobody can have set anything of its VFs
	}
	if err != nil {
		return nil, err
	}
	if err := parts.Takes(pf.Name, pf.InfiniBand, d.Driver, e.VF); err != nil {
		return nil, refuse("vf", err)
	}
	if !idle {
		if err := sriov.RefuseSwitchdev(d.ID.PCI); err != nil {
			return nil, err
		}
	}
	number, err := strconv.Atoi(d.ID.VF)
	if err != nil {
		return nil, fmt.Errorf("read the number of VF %s: %w", d.ID, err)
	}
	if readdress {
		if err := l.mayRebind(mode, d, e); err != nil {
			return nil, err
		}
		if s.Rebind, err = l.readRebind(d, pf, number); err != nil {
			return nil, err
		}
	}
	now, err := sriov.Read(pf, number)
	if errors.Is(err, sriov.ErrNoVF) && idle {
		return s, nil // the PF's driver says nothing of its VFs
	}
	if err != nil {
		return nil, err
	}
	s.Want = attributes(wanted, now)
	s.Had = now.Only(s.Want)
	s.Had.MAC = now.MAC
	return s, nil
}

// mayRebind returns an error for a VF that cannot be bound again for a job.
func (l *Look) mayRebind(mode rdma.Mode, d scan.Device, e gres.Entry) error {
	if e.Keep {
		err := fmt.Errorf("the interface of %s stays on the node, which may use it", d.Name)
		return refuse("vf", hint.With(err, `GN368 an address of the job's own is not for interface = "keep" and isolation = "devices": leave it out of vf`))
	}
	if mode == rdma.Exclusive {
		return nil // the move takes the RDMA device from whoever has opened it
	}
	// The kernel makes device nodes that everybody may open.
	closed, err := char.Folder(l.Host.Dev).IsClosed()
	if err != nil || closed {
		return err
	}
	err = fmt.Errorf("users could open the new device nodes of %s in %s before they are closed", d.Name, l.Host.Dev)
	return refuse("vf", hint.With(err, `GN369 in shared mode an address of the job's own needs host = "closed", and each HCA of the node in a [[hca]]`))
}

// readRebind returns what gives a VF an address of the job's own.
func (l *Look) readRebind(d scan.Device, pf sriov.Link, number int) (*step.Rebind, error) {
	had, err := sriov.ReadAddress(l.Host.Sys, pf, number, d.Name)
	if errors.Is(err, sriov.ErrNoAddress) || errors.Is(err, sriov.ErrNoVF) {
		return nil, refuse("vf", hint.With(fmt.Errorf("give %s an address of the job's own: %w", d.Name, err), `GN366 give the VF one: part = "vf" in [[hca]] does at boot, or ip link set PF vf N mac (node_guid, port_guid) and a new bind`))
	}
	if err != nil {
		return nil, err
	}
	parent, err := sysfs.RDMAOf(l.Host.Sys, d.ID.PCI)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse("vf", hint.With(fmt.Errorf("give %s an address of the job's own: %w", d.Name, err), "GN371 see in journalctl -k why the driver of the PF made no RDMA device"))
	}
	if err != nil {
		return nil, err
	}
	guid, err := sysfs.NodeGUID(l.Host.Sys, parent)
	if err != nil {
		return nil, err
	}
	s := &step.Rebind{ID: d.ID, Name: netlink.Name(d.Name), Had: had, Want: pf.AddressFor(guid, number, l.World.Job)}
	s.CM, err = l.World.ReadCM(d.Name)
	return s, err
}

// survivesRebind returns an error for a VF that gets an address of the job's own, and whose interface
// has children, which end when the driver lets go of the VF; or has another MAC from its driver than
// the PF was told, which no new bind gives it again.
func survivesRebind(h plan.HCA, p scan.Port, s snapshot.Settings) error {
	if !h.Rebinds() {
		return nil
	}
	if told, has := h.VF.Rebind.Had.MAC, p.Interface.BoundWith(); told != "" && told != has {
		err := fmt.Errorf("the driver of %s gave it MAC %s, and the PF was told %s, which counts from the next bind", s.Name, has, told)
		return refuse("vf", hint.With(err, "GN373 tell the PF the first (ip link set PF vf N mac), or have the driver bind the VF again"))
	}
	for _, child := range s.Children {
		if !child.ID.IsPKeyChild() {
			err := fmt.Errorf("%s stands on %s, which is made anew for an address of the job's own", child.Settings.Name, s.Name)
			return refuse("vf", hint.With(err, "GN367 remove it from the node, or leave address out of vf in [[hca]] and [[policy]]"))
		}
	}
	return nil
}

// refuse makes what the node cannot do of a key of the configuration a refusal of the job. Users choose
// by which account and with which type of NIC they ask, so this must not drain the node.
func refuse(key string, err error) error {
	return &gres.Refusal{Ask: key + " of the site's configuration", Why: err.Error(), Do: hint.Whole(err)}
}

// attributes returns the attributes that a site wants. A driver takes both rates together.
func attributes(wanted config.VF, now sriov.Attributes) (a sriov.Attributes) {
	if v := wanted.VLAN; v != nil {
		a.VLAN = &sriov.VLAN{ID: v.ID, QoS: v.QoS, Proto: sriov.Dot1Q}
		if v.Proto == config.Proto8021AD {
			a.VLAN.Proto = sriov.Dot1AD
		}
	}
	if wanted.MinRate != nil || wanted.MaxRate != nil {
		rate := *now.Rate
		if wanted.MinRate != nil {
			rate.Min = *wanted.MinRate
		}
		if wanted.MaxRate != nil {
			rate.Max = *wanted.MaxRate
		}
		a.Rate = &rate
	}
	a.SpoofCheck, a.Trust = wanted.SpoofCheck, wanted.Trust
	if wanted.State != "" {
		state := sriov.Auto
		if wanted.State == config.LinkEnable {
			state = sriov.Enable
		}
		a.State = &state
	}
	return a
}
