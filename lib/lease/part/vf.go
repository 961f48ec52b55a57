package part

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/source"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/plan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
)

// vf is a VF of a PF. It moves as a whole HCA does; besides, the PF does for it what the site wants.
type vf struct{ Whole }

// Decide returns the entry with what the PF is to do for the job's VF.
func (vf) Decide(c config.Config, j job.Job, e gres.Entry) (gres.Entry, error) {
	e.VF = source.VF(c, j, e.VF)
	return e, nil
}

// Read reads what the PF is to do for the VF and what it does now.
func (vf) Read(r *Reading) error {
	s, err := readVF(r)
	if err != nil {
		return err
	}
	r.HCA.Before = []step.Step{s}
	if s.Rebind != nil {
		s.Rebind.Access = r.HCA.Access
		r.HCA.Renewal = &plan.Renewal{Step: s.Rebind, ForJob: func(had snapshot.Settings) snapshot.Settings { return had.Readdressed(s.Rebind.Want) }}
	}
	return nil
}

func readVF(r *Reading) (*step.VF, error) {
	d, e := r.Device, r.Entry
	s := &step.VF{ID: d.ID, Name: d.Name}
	wanted, readdress := e.VF, e.VF.Address == config.AddressJob
	wanted.Address = ""
	idle := wanted == config.VF{} && !readdress
	pf, err := sriov.FindLink(r.World.Sys, d.ID.PCI)
	if errors.Is(err, sriov.ErrNoLink) && idle {
		return s, nil // nobody can have set anything of its VFs
	}
	if err != nil {
		return nil, err
	}
	if err := takes(pf.Name, pf.InfiniBand, d.Driver, e.VF); err != nil {
		return nil, refuse("vf", err)
	}
	number, err := strconv.Atoi(d.ID.VF)
	if err != nil {
		return nil, fmt.Errorf("read the number of VF %s: %w", d.ID, err)
	}
	if !pf.InfiniBand && sriov.InSwitchdev(d.ID.PCI) {
		if err := takesInSwitchdev(d.ID.PCI, e.VF); err != nil {
			return nil, refuse("vf", err)
		}
		if s.Representor, err = readRepresentor(r, wanted.VLAN); err != nil {
			return nil, err
		}
		wanted.VLAN, idle = nil, true
	}
	if readdress {
		if err := mayRebind(r); err != nil {
			return nil, err
		}
		if s.Rebind, err = readRebind(r, pf, number); err != nil {
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

// readRepresentor reads how a VF's representor is set. It comes up with the job, in the VLAN that the site wants, if
// it wants one. It is nil if the node has none.
func readRepresentor(r *Reading, vlan *config.VLAN) (*sriov.Representor, error) {
	rep, err := sriov.FindRepresentor(r.World.Sys, r.Device.ID)
	tagged := vlan != nil && vlan.ID != 0
	if errors.Is(err, sriov.ErrNoRepresentor) {
		if !tagged {
			return nil, nil
		}
		err := fmt.Errorf("the representor of VF %s of %s is not on the node", r.Device.ID.VF, r.Device.ID.PCI)
		return nil, refuse("vf", hint.With(err, "GN725 see by `devlink port` which interface it is, and bring that to the root namespace"))
	}
	if err != nil {
		return nil, err
	}
	ovs, err := sriov.Takes(r.World.Context, rep, tagged)
	if err == nil && ovs != nil {
		err = runsOVS(r.World)
	}
	if err != nil {
		return nil, refuse("vf", err)
	}
	had, err := sriov.ReadPort(rep, tagged && ovs == nil)
	if err != nil {
		return nil, err
	}
	had.OVS = ovs
	s := &sriov.Representor{Name: rep.Name, Had: had, Want: sriov.Port{Up: true}}
	if tagged {
		s.Want = had.In(vlan.ID)
	}
	return s, nil
}

// runsOVS returns an error if nobody would do what Open vSwitch's database says.
func runsOVS(w *world.World) error {
	const daemon = "ovs-vswitchd"
	running, err := w.Managers.IsRunning(daemon)
	if err == nil && !running {
		err = hint.With(fmt.Errorf("%s does not run on the node", daemon), "GN757 systemctl start openvswitch-switch, or openvswitch")
	}
	return err
}

// mayRebind returns an error for a VF that cannot be bound again for a job.
func mayRebind(r *Reading) error {
	d := r.Device
	if r.Entry.Keep {
		err := fmt.Errorf("the interface of %s stays on the node, which may use it", d.Name)
		return refuse("vf", hint.With(err, `GN368 an address of the job's own is not for interface = "keep" and isolation = "devices": leave it out of vf`))
	}
	if r.Mode == rdma.Exclusive {
		return nil // the move takes the RDMA device from whoever has opened it
	}
	// The kernel makes device nodes that everybody may open.
	closed, err := devnode.Folder(r.World.Dev).IsClosed()
	if err != nil || closed {
		return err
	}
	err = fmt.Errorf("users could open the new device nodes of %s in %s before they are closed", d.Name, r.World.Dev)
	return refuse("vf", hint.With(err, `GN369 in shared mode an address of the job's own needs host = "closed", and each HCA of the node in a [[hca]]`))
}

// readRebind returns what gives a VF an address of the job's own.
func readRebind(r *Reading, pf sriov.Link, number int) (*step.Rebind, error) {
	d := r.Device
	had, err := sriov.ReadAddress(r.World.Sys, pf, number, d.Name)
	if errors.Is(err, sriov.ErrNoAddress) || errors.Is(err, sriov.ErrNoVF) {
		return nil, refuse("vf", hint.With(fmt.Errorf("give %s an address of the job's own: %w", d.Name, err), `GN366 give the VF one: part = "vf" in [[hca]] does at boot, or ip link set PF vf N mac (node_guid, port_guid) and a new bind`))
	}
	if err != nil {
		return nil, err
	}
	parent, err := sysfs.RDMAOf(r.World.Sys, d.ID.PCI)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse("vf", hint.With(fmt.Errorf("give %s an address of the job's own: %w", d.Name, err), "GN371 see in journalctl -k why the driver of the PF made no RDMA device"))
	}
	if err != nil {
		return nil, err
	}
	guid, err := sysfs.NodeGUID(r.World.Sys, parent)
	if err != nil {
		return nil, err
	}
	s := &step.Rebind{ID: d.ID, Name: netlink.Name(d.Name), Had: had, Want: pf.AddressFor(guid, number, r.World.Job)}
	s.CM, err = r.World.ReadCM(d.Name)
	return s, err
}

// Remake notes the index of the interface of a VF that gets an address of the job's own. It returns an error
// for one that has children, which end when the driver lets go of the VF; or has another MAC from its driver
// than the PF was told, which no new bind gives it again.
func (vf) Remake(h *plan.HCA, p scan.Port, s snapshot.Settings) error {
	if h.Renewal == nil {
		return nil
	}
	rebind := h.Renewal.Step.(*step.Rebind)
	rebind.Index = p.Interface.Index
	if told, has := rebind.Had.MAC, p.Interface.BoundWith(); told != "" && told != has {
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

// Problems returns what is wrong with the PFs.
func (vf) Problems(c config.Config, node report.Scan) (all []error) {
	for _, h := range c.HCAs {
		if !h.Kind().Has("vf") {
			continue
		}
		i := slices.IndexFunc(node.HCAs, func(o report.HCA) bool { return h.Splits(o.ID) })
		if i < 0 {
			err := fmt.Errorf("%s, which has VFs by [[hca]], is no HCA of the node", h.Match.Value)
			all = append(all, hint.With(err, "GN327 correct match in [[hca]], or see whether the PF is plugged in and its driver loaded"))
			continue
		}
		all = append(all, ofPF(c, h, node.HCAs[i])...)
	}
	return all
}

func ofPF(c config.Config, h config.HCA, pf report.HCA) (all []error) {
	var vfs report.VFs
	if pf.VFs != nil {
		vfs = *pf.VFs
	}
	if err := sriov.Fits(h.Match.Value, h.Count, vfs.Now, vfs.Total); err != nil {
		all = append(all, err)
	}
	if known := len(pf.Ports) > 0; known && !slices.ContainsFunc(pf.Ports, func(p report.Port) bool { return p.State == "ACTIVE" }) {
		all = append(all, meant{hint.With(fmt.Errorf("no port of %s is active: its VFs have no link", pf.Name), "GN328 bring its interface up, and see whether its cable is in")})
	}
	infiniband := slices.ContainsFunc(pf.Ports, func(p report.Port) bool { return p.LinkLayer == "InfiniBand" })
	wanted := []config.VF{h.VF}
	for _, p := range c.Policies {
		wanted = append(wanted, p.VF)
	}
	for _, v := range wanted {
		err := takes(pf.Name, infiniband, pf.Driver, v)
		if err == nil && vfs.Switchdev && !infiniband {
			err = takesInSwitchdev(h.Match.Value, v)
		}
		if err != nil {
			return append(all, err)
		}
	}
	return all
}

// only802Dot1Q are the RDMA drivers of PFs that take no other VLANs for their VFs
// (bnxt_sriov.c:bnxt_set_vf_vlan, qede_main.c:qede_set_vf_vlan: EPROTONOSUPPORT).
var only802Dot1Q = []string{"bnxt_re", "qedr"}

// twoInterfaces is the RDMA driver whose VFs have an interface for each port (mlx4_en, main.c:mlx4_en_activate).
const twoInterfaces = "mlx4"

// takes returns an error for what a PF is known not to do for its VFs. Of the rest its driver decides.
func takes(pf string, infiniband bool, driver string, v config.VF) error {
	switch {
	case infiniband && v != config.VF{State: v.State, Address: v.Address}:
		return hint.With(
			fmt.Errorf("%s is InfiniBand: VLANs, rates, trust and spoof checks are Ethernet's", pf),
			"GN329 leave all but state and address out of vf in [[hca]] and [[policy]]; on InfiniBand the subnet manager has partitions and rates",
		)
	case v.VLAN != nil && v.VLAN.Proto == config.Proto8021AD && slices.Contains(only802Dot1Q, driver):
		return hint.With(fmt.Errorf("driver %s takes no VLANs of 802.1ad for the VFs of %s", driver, pf), "GN330 leave proto out of vf in [[hca]] and [[policy]]")
	case v.Address == config.AddressJob && rdma.EndsWithInterface(driver):
		return hint.With(fmt.Errorf("driver %s ends its RDMA device when the VF is bound again: %s stays as it is", driver, pf), "GN372 leave address out of vf in [[hca]] and [[policy]]")
	case v.Address == config.AddressJob && driver == twoInterfaces:
		return hint.With(fmt.Errorf("driver %s makes two interfaces for a VF, which only their MACs tell apart: %s stays as it is", driver, pf), "GN365 leave address out of vf in [[hca]] and [[policy]]")
	}
	return nil
}

// takesInSwitchdev returns an error for what a VF cannot have whose PF is in switchdev mode.
func takesInSwitchdev(pf string, v config.VF) error {
	vlan := v.VLAN
	v.VLAN = nil
	if v.Address == config.AddressVF {
		v.Address = ""
	}
	if v == (config.VF{}) && (vlan == nil || vlan.QoS == 0 && vlan.Proto == config.Proto8021Q) {
		return nil
	}
	err := fmt.Errorf("%s is in switchdev mode: of vf its VFs take vlan alone, which their representors have", pf)
	return hint.With(err, "GN338 leave the other keys out of vf in [[hca]] and [[policy]]; or devlink dev eswitch set pci/"+pf+" mode legacy")
}
