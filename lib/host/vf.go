package host

import (
	"errors"
	"fmt"
	"strconv"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/parts"
	"gresnet/lib/scan"
	"gresnet/lib/sriov"
	"gresnet/lib/step"
)

// readVF returns what the PF of a VF is to do for it and what it does now; nil if the HCA is no VF.
func (l *Look) readVF(d scan.Device, wanted config.VF) (*step.VF, error) {
	if d.ID.VF == "" {
		return nil, nil
	}
	s := &step.VF{ID: d.ID, Name: d.Name}
	pf, err := sriov.FindLink(l.Host.Sys, d.ID.PCI)
	if errors.Is(err, sriov.ErrNoLink) && wanted == (config.VF{}) {
		return s, nil // nobody can have set anything of its VFs
	}
	if err != nil {
		return nil, err
	}
	if err := parts.Takes(pf.Name, pf.InfiniBand, d.Driver, wanted); err != nil {
		return nil, refuse("vf", err)
	}
	if wanted != (config.VF{}) {
		if err := sriov.RefuseSwitchdev(d.ID.PCI); err != nil {
			return nil, err
		}
	}
	number, err := strconv.Atoi(d.ID.VF)
	if err != nil {
		return nil, fmt.Errorf("read the number of VF %s: %w", d.ID, err)
	}
	now, err := sriov.Read(pf, number)
	if errors.Is(err, sriov.ErrNoVF) && wanted == (config.VF{}) {
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
