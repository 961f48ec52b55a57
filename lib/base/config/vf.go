package config

import (
	"cmp"
	"fmt"
	"strings"
)

// VF is what a PF does for a VF while a job has it. What is nil is left as it is.
type VF struct {
	VLAN       *VLAN
	MinRate    *int // in Mbit/s; 0: none is guaranteed
	MaxRate    *int // in Mbit/s; 0: nothing bounds it
	SpoofCheck *bool
	Trust      *bool
	State      string // LinkAuto or LinkEnable; empty: as it is
}

// VLAN is in which VLAN a VF is; ID 0: none.
type VLAN struct {
	ID, QoS int
	Proto   string
}

// The protocols of VLANs.
const (
	Proto8021Q  = "802.1q"
	Proto8021AD = "802.1ad"
)

// The states that a PF gives a VF's link.
const (
	LinkAuto   = "auto"   // it is up while the PF's is
	LinkEnable = "enable" // it is up
)

// Bounds of what a VF can have.
const (
	maxVLAN = 4094
	maxQoS  = 7
	maxRate = 10_000_000 // Mbit/s
)

func (v *VF) read(t table) {
	t.Allow(
		// | the VF's VLAN, 1 to 4094, which the card adds and removes; 0: none
		"vlan",
		// 0 with `vlan` | the priority in that VLAN, 0 to 7
		"qos",
		// 802.1q with `vlan` | `"802.1q"` or `"802.1ad"`
		"proto",
		// | Mbit/s that are guaranteed to the VF; 0: none
		"min_rate",
		// | Mbit/s that it can send at most; 0: as many as the link has
		"max_rate",
		// | `true`: the card drops packets that the VF sends under another MAC
		"spoof_check",
		// | `true`: the VF may change its MAC, and see packets for others
		"trust",
		// | `"auto"`: its link is up while the PF's is; `"enable"`: it is always up, so VFs of one PF reach
		// each other without a cable
		"state",
	)
	v.readVLAN(t)
	v.MinRate, v.MaxRate = readWithin(t, "min_rate", maxRate), readWithin(t, "max_rate", maxRate)
	if v.MinRate != nil && v.MaxRate != nil && *v.MaxRate != 0 && *v.MinRate > *v.MaxRate {
		t.Fail("min_rate", "", "%d is more than max_rate, %d", *v.MinRate, *v.MaxRate)
	}
	v.SpoofCheck, v.Trust = readSwitch(t, "spoof_check"), readSwitch(t, "trust")
	v.State, _ = t.Word("state", LinkAuto, LinkEnable)
}

func (v *VF) readVLAN(t table) {
	id, qos := readWithin(t, "vlan", maxVLAN), readWithin(t, "qos", maxQoS)
	proto, _ := t.Word("proto", Proto8021Q, Proto8021AD)
	if id != nil {
		v.VLAN = &VLAN{ID: *id, Proto: cmp.Or(proto, Proto8021Q)}
		if qos != nil {
			v.VLAN.QoS = *qos
		}
		return
	}
	for _, key := range []string{"qos", "proto"} {
		if t.Has(key) {
			t.Fail(key, "GN324 say which vlan, too: a driver takes them together", "there is no vlan")
		}
	}
}

// readWithin reads a number from 0 to the most; nil if it is not there.
func readWithin(t table, key string, most int64) *int {
	n, there := valueOf[int64](t, key, "a number")
	if !there {
		return nil
	}
	if n < 0 || n > most {
		t.Fail(key, "", "%d is not from 0 to %d", n, most)
	}
	number := int(n)
	return &number
}

func readSwitch(t table, key string) *bool {
	on, there := valueOf[bool](t, key, "true or false")
	if !there {
		return nil
	}
	return &on
}

// Or fills in what is not said by what another says.
func (v VF) Or(other VF) VF {
	return VF{
		VLAN: cmp.Or(v.VLAN, other.VLAN), MinRate: cmp.Or(v.MinRate, other.MinRate), MaxRate: cmp.Or(v.MaxRate, other.MaxRate),
		SpoofCheck: cmp.Or(v.SpoofCheck, other.SpoofCheck), Trust: cmp.Or(v.Trust, other.Trust), State: cmp.Or(v.State, other.State),
	}
}

// String returns the inline table that says it.
func (v VF) String() string {
	var said []string
	say := func(key string, there bool, value func() any) {
		if there {
			said = append(said, fmt.Sprintf("%s = %v", key, value()))
		}
	}
	say("vlan", v.VLAN != nil, func() any { return v.VLAN.ID })
	say("qos", v.VLAN != nil && v.VLAN.QoS != 0, func() any { return v.VLAN.QoS })
	say("proto", v.VLAN != nil && v.VLAN.Proto != Proto8021Q, func() any { return quoted([]string{v.VLAN.Proto}) })
	say("min_rate", v.MinRate != nil, func() any { return *v.MinRate })
	say("max_rate", v.MaxRate != nil, func() any { return *v.MaxRate })
	say("spoof_check", v.SpoofCheck != nil, func() any { return *v.SpoofCheck })
	say("trust", v.Trust != nil, func() any { return *v.Trust })
	say("state", v.State != "", func() any { return quoted([]string{v.State}) })
	return "{" + strings.Join(said, ", ") + "}"
}
