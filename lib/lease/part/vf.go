package part

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/lease/step"
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
	return nil
}

func readVF(r *Reading) (*step.VF, error) {
	d, e := r.Device, r.Entry
	s := &step.VF{ID: d.ID, Name: d.Name}
	wanted := e.VF
	idle := wanted == config.VF{}
	pf, err := sriov.FindLink(r.World.Sys, d.ID.PCI)
	if errors.Is(err, sriov.ErrNoLink) && idle {
		return s, nil // nothing can have been set of its VFs
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

// runsOVS returns an error if no ovs-vswitchd would do what Open vSwitch's database says.
func runsOVS(w *world.World) error {
	const daemon = "ovs-vswitchd"
	running, err := w.Managers.IsRunning(daemon)
	if err == nil && !running {
		err = hint.With(fmt.Errorf("%s does not run on the node", daemon), "GN757 systemctl start openvswitch-switch, or openvswitch")
	}
	return err
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

// takes returns an error for what a PF is known not to do for its VFs. Of the rest its driver decides.
func takes(pf string, infiniband bool, driver string, v config.VF) error {
	switch {
	case infiniband && v != config.VF{State: v.State}:
		return hint.With(
			fmt.Errorf("%s is InfiniBand: VLANs, rates, trust and spoof checks are Ethernet's", pf),
			"GN329 leave all but state out of vf in [[hca]] and [[policy]]; on InfiniBand the subnet manager has partitions and rates",
		)
	case v.VLAN != nil && v.VLAN.Proto == config.Proto8021AD && slices.Contains(only802Dot1Q, driver):
		return hint.With(fmt.Errorf("driver %s takes no VLANs of 802.1ad for the VFs of %s", driver, pf), "GN330 leave proto out of vf in [[hca]] and [[policy]]")
	}
	return nil
}

// takesInSwitchdev returns an error for what a VF cannot have whose PF is in switchdev mode.
func takesInSwitchdev(pf string, v config.VF) error {
	vlan := v.VLAN
	v.VLAN = nil
	if v == (config.VF{}) && (vlan == nil || vlan.QoS == 0 && vlan.Proto == config.Proto8021Q) {
		return nil
	}
	err := fmt.Errorf("%s is in switchdev mode: of vf its VFs take vlan alone, which their representors have", pf)
	return hint.With(err, "GN338 leave the other keys out of vf in [[hca]] and [[policy]]; or devlink dev eswitch set pci/"+pf+" mode legacy")
}
