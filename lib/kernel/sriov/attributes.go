package sriov

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/kernel/sysfs"
)

// Attributes are what a PF does for one of its VFs. What is nil stays as it is.
type Attributes struct {
	VLAN       *VLAN   `json:"vlan,omitempty"`
	MAC        *string `json:"mac,omitempty"` // that the PF has on record
	Rate       *Rate   `json:"rate,omitempty"`
	SpoofCheck *bool   `json:"spoof_check,omitempty"`
	Trust      *bool   `json:"trust,omitempty"`
	State      *State  `json:"state,omitempty"`
}

// VLAN is in which VLAN a VF is; ID 0: none.
type VLAN struct {
	ID    int `json:"id"`
	QoS   int `json:"qos"`
	Proto int `json:"proto"` // its Ethernet type
}

// The Ethernet types of VLANs.
const (
	Dot1Q  = 0x8100
	Dot1AD = 0x88a8
)

// Rate bounds what a VF sends, in Mbit/s; 0: nothing bounds it.
type Rate struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// State is the state that the PF gives a VF's link.
type State uint32

// The states of a VF's link (IFLA_VF_LINK_STATE).
const (
	Auto    State = iota // the PF's
	Enable               // up
	Disable              // down
)

func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprint(uint32(s))
}

var states = [...]string{"auto", "enable", "disable"}

func (v VLAN) String() string {
	proto := map[int]string{Dot1Q: "802.1q", Dot1AD: "802.1ad"}[v.Proto]
	if proto == "" {
		proto = fmt.Sprintf("%#x", v.Proto)
	}
	return fmt.Sprintf("%d qos %d proto %s", v.ID, v.QoS, proto)
}

func (r Rate) String() string { return fmt.Sprintf("from %d to %d Mbit/s", r.Min, r.Max) }

// attribute is one of a VF's attributes. The PF's driver takes some of them.
type attribute struct {
	name string
	text func(Attributes) string // empty: it is nil
	keep func(into *Attributes, from Attributes)
	set  func(l netlink.Link, vf int, a Attributes) error
}

// attributes are all of them, in the order in which they are set.
var attributes = []attribute{
	{
		"vlan", func(a Attributes) string { return text(a.VLAN) },
		func(into *Attributes, from Attributes) { into.VLAN = from.VLAN },
		func(l netlink.Link, vf int, a Attributes) error {
			return netlink.LinkSetVfVlanQosProto(l, vf, a.VLAN.ID, a.VLAN.QoS, a.VLAN.Proto)
		},
	},
	{
		"mac", func(a Attributes) string { return text(a.MAC) },
		func(into *Attributes, from Attributes) { into.MAC = from.MAC },
		func(l netlink.Link, vf int, a Attributes) error {
			mac, err := net.ParseMAC(*a.MAC)
			if err != nil {
				return err
			}
			return netlink.LinkSetVfHardwareAddr(l, vf, mac)
		},
	},
	{
		"rate", func(a Attributes) string { return text(a.Rate) },
		func(into *Attributes, from Attributes) { into.Rate = from.Rate },
		func(l netlink.Link, vf int, a Attributes) error {
			return netlink.LinkSetVfRate(l, vf, a.Rate.Min, a.Rate.Max)
		},
	},
	{
		"spoof check", func(a Attributes) string { return text(a.SpoofCheck) },
		func(into *Attributes, from Attributes) { into.SpoofCheck = from.SpoofCheck },
		func(l netlink.Link, vf int, a Attributes) error {
			return netlink.LinkSetVfSpoofchk(l, vf, *a.SpoofCheck)
		},
	},
	{
		"trust", func(a Attributes) string { return text(a.Trust) },
		func(into *Attributes, from Attributes) { into.Trust = from.Trust },
		func(l netlink.Link, vf int, a Attributes) error { return netlink.LinkSetVfTrust(l, vf, *a.Trust) },
	},
	{
		"state", func(a Attributes) string { return text(a.State) },
		func(into *Attributes, from Attributes) { into.State = from.State },
		func(l netlink.Link, vf int, a Attributes) error {
			return netlink.LinkSetVfState(l, vf, uint32(*a.State))
		},
	},
}

func text[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

// String lists the attributes that are not nil.
func (a Attributes) String() string {
	var said []string
	for _, at := range attributes {
		if value := at.text(a); value != "" {
			said = append(said, at.name+" "+value)
		}
	}
	return strings.Join(said, ", ")
}

// Only returns those attributes that are not nil in another.
func (a Attributes) Only(other Attributes) (some Attributes) {
	for _, at := range attributes {
		if at.text(other) != "" {
			at.keep(&some, a)
		}
	}
	return some
}

// ErrNoVF means that the PF has no VF of that number any more.
var ErrNoVF = errors.New("no such VF")

// Read returns all attributes of a VF, as its PF has them on record.
func Read(pf Link, vf int) (Attributes, error) {
	_, a, err := read(pf, vf)
	return a, err
}

func read(pf Link, vf int) (netlink.Link, Attributes, error) {
	l, err := netlink.LinkByIndex(pf.Index)
	if err != nil {
		return nil, Attributes{}, fmt.Errorf("read the VFs of %s: %w", pf.Name, err)
	}
	list := l.Attrs().Vfs
	i := slices.IndexFunc(list, func(v netlink.VfInfo) bool { return v.ID == vf })
	if i < 0 {
		return nil, Attributes{}, fmt.Errorf("read VF %d of %s: %w", vf, pf.Name, ErrNoVF)
	}
	v := list[i]
	mac, trust, state := v.Mac.String(), v.Trust != 0, State(v.LinkState)
	a := Attributes{
		VLAN: &VLAN{v.Vlan, v.Qos, v.VlanProto}, Rate: &Rate{int(v.MinTxRate), int(v.MaxTxRate)},
		SpoofCheck: &v.Spoofchk, Trust: &trust, State: &state,
	}
	if slices.ContainsFunc(v.Mac, func(b byte) bool { return b != 0 }) {
		a.MAC = &mac // what a PF was never told cannot be told again
	}
	return l, a, nil
}

// Set has a VF's PF do so, if it is to do anything. Without the VF it is fs.ErrNotExist or ErrNoVF.
func (a Attributes) Set(sys fs.FS, vf node.ID) error {
	if a == (Attributes{}) {
		return nil
	}
	if _, err := sysfs.AddressOf(sys, vf); err != nil {
		return err
	}
	pf, err := FindLink(sys, vf.PCI)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(vf.VF)
	if err != nil {
		return fmt.Errorf("read the number of VF %s: %w", vf, err)
	}
	return apply(pf, number, a)
}

// apply sets the attributes that are not nil and differ, and reads them again.
func apply(pf Link, vf int, want Attributes) error {
	l, now, err := read(pf, vf)
	if err != nil {
		return err
	}
	var failed []error
	changed := false
	for _, at := range attributes {
		value := at.text(want)
		if value == "" || value == at.text(now) {
			continue
		}
		changed = true
		if err := at.set(l, vf, want); err != nil {
			err = fmt.Errorf("set %s %s of VF %d of %s: %w", at.name, value, vf, pf.Name, err)
			failed = append(failed, hint.With(err, "GN331 the PF's driver does not take that: leave it out of vf in [[hca]] and [[policy]]"))
		}
	}
	if len(failed) > 0 || !changed {
		return hint.Join(failed...)
	}
	if _, now, err = read(pf, vf); err != nil {
		return err
	}
	for _, at := range attributes {
		if value, is := at.text(want), at.text(now); value != "" && value != is {
			failed = append(failed, fmt.Errorf("set %s %s of VF %d of %s: its driver took it, and it is %s", at.name, value, vf, pf.Name, is))
		}
	}
	return hint.Join(failed...)
}
