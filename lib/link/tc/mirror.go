package tc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/words/hint"
)

// Of linux/rtnetlink.h, linux/pkt_cls.h and linux/tc_act/tc_mirred.h, which x/sys/unix lacks.
const (
	actionHead      = 4  // sizeof(struct tcamsg)
	rootActions     = 1  // TCA_ACT_TAB
	rootFlags       = 2  // TCA_ROOT_FLAGS
	largeDump       = 1  // TCA_ACT_FLAG_LARGE_DUMP_ON
	actionKind      = 1  // TCA_ACT_KIND
	actionOptions   = 2  // TCA_ACT_OPTIONS
	actionCookie    = 6  // TCA_ACT_COOKIE
	actionFlags     = 7  // TCA_ACT_FLAGS
	actionHWStats   = 8  // TCA_ACT_HW_STATS
	actionInHW      = 10 // TCA_ACT_IN_HW_COUNT
	mirredParms     = 2  // TCA_MIRRED_PARMS
	mirredSize      = 28
	mirredNumber    = 0  // where struct tc_mirred has them
	mirredControl   = 8  // what becomes of the packet itself
	mirredCounts    = 12 // two counters: references, and the filters among them
	mirredInterface = 24
	controlChain    = 2 // TC_ACT_GOTO_CHAIN; the lower 28 bits of the action are the chain's number
)

const mirred = "mirred"

// Mirror is an action, mirred, that sends packets through an interface.
type Mirror []byte

// ReadMirrors returns the actions of others' traffic filters, and those that stand alone, that send
// packets through the interface. The kernel takes it from them when it leaves its namespace
// (act_mirred.c:mirred_device_event), and lets them be told of another: they, and
// the filters that have them, stay. All of a namespace have a number, those of shared blocks, too.
func ReadMirrors(r *netlink.Route, index int) (list []Mirror, err error) {
	all, err := dumpMirrors(r)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.to() == uint32(index) {
			list = append(list, m.on(0))
		}
	}
	return list, nil
}

// dumpMirrors returns the actions of the kind, comparable and sendable. A kernel without it has none
// and loads no module for the question (act_api.c:tc_dump_action).
func dumpMirrors(r *netlink.Route) (list []Mirror, err error) {
	one := netlink.Append(nil, 1, netlink.AppendText(nil, actionKind, mirred))
	request := netlink.Append(make([]byte, actionHead), rootActions|unix.NLA_F_NESTED, one)
	flag := native.AppendUint32(native.AppendUint32(nil, largeDump), largeDump) // struct nla_bitfield32
	request = netlink.Append(request, rootFlags, flag)
	// The kernel answers by the kind of the question.
	answers, err := r.Send(unix.RTM_GETACTION, unix.NLM_F_DUMP, unix.RTM_GETACTION, request)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		outer, err := netlink.Behind(a, actionHead, "traffic control action")
		if err != nil {
			return nil, err
		}
		actions, err := outer.Nested(rootActions)
		if err != nil {
			return nil, err
		}
		for a := range actions.All() {
			m, err := cleanMirror(a.Value)
			if err != nil {
				return nil, err
			}
			if m != nil {
				list = append(list, m)
			}
		}
	}
	return list, nil
}

// cleanMirror keeps what makes the action, nil if it is of another kind.
func cleanMirror(action []byte) (Mirror, error) {
	list, err := netlink.Parse(action)
	if err != nil {
		return nil, err
	}
	inner, err := list.Nested(actionOptions)
	if err != nil {
		return nil, err
	}
	parms := inner.Value(mirredParms)
	if list.Text(actionKind) != mirred || len(parms) < mirredSize {
		return nil, nil
	}
	parms = slices.Clone(parms)
	clear(parms[mirredCounts : mirredCounts+8])
	m := netlink.AppendText(nil, actionKind, mirred)
	m = netlink.Append(m, actionOptions|unix.NLA_F_NESTED, netlink.Append(nil, mirredParms, parms))
	for _, a := range []uint16{actionCookie, actionFlags, actionHWStats} {
		if v, ok := list.Find(a); ok {
			m = netlink.Append(m, a, v)
		}
	}
	if list.Number(actionInHW) > 0 {
		m = netlink.Append(m, actionInHW, nil)
	}
	return m, nil
}

// parms is struct tc_mirred in an action.
func (m Mirror) parms() []byte {
	inner, _ := netlink.Kept(m, 0).Nested(actionOptions)
	return inner.Value(mirredParms)
}

func (m Mirror) to() uint32     { return native.Uint32(m.parms()[mirredInterface:]) }
func (m Mirror) number() uint32 { return native.Uint32(m.parms()[mirredNumber:]) }

// String names an action.
func (m Mirror) String() string { return fmt.Sprint(m.number()) }

// on returns an action for the interface with an index.
func (m Mirror) on(index int) Mirror {
	out := slices.Clone(m)
	native.PutUint32(out.parms()[mirredInterface:], uint32(index))
	return out
}

// RefuseMirrors refuses actions that cannot be told of the interface again: those with which the
// packet goes on in a chain, which only the filter can say, and those that hardware does, whose
// driver was told of the interface once. nameOf returns the name of an interface by its index.
func RefuseMirrors(r *netlink.Route, name string, mirrors []Mirror, nameOf func(index int) (string, error)) error {
	var numbers []uint32
	for _, m := range mirrors {
		what := fmt.Sprintf("the traffic control action mirred %s sends packets through %s", m, name)
		if native.Uint32(m.parms()[mirredControl:])>>28 == controlChain {
			return fmt.Errorf("%s and on to a chain, which gresnet cannot restore", what)
		}
		if _, is := netlink.Attributes(m).Find(actionInHW); is {
			return fmt.Errorf("%s in hardware, which gresnet cannot restore", what)
		}
		numbers = append(numbers, m.number())
	}
	if len(numbers) == 0 {
		return nil
	}
	return eachFilter(r, func(at int, filter netlink.Attributes) error {
		if number, is := offloaded(filter, numbers); is {
			other, err := nameOf(at)
			if err != nil {
				return err
			}
			return fmt.Errorf("a traffic filter of %s sends packets through %s in hardware (action mirred %d), which gresnet cannot restore", other, name, number)
		}
		return nil
	})
}

// eachFilter calls a function with each traffic filter that hardware may do: those of what
// comes in, and of clsact.
func eachFilter(r *netlink.Route, f func(at int, filter netlink.Attributes) error) error {
	all, err := r.Send(unix.RTM_GETQDISC, unix.NLM_F_DUMP, unix.RTM_NEWQDISC, tcmsg(0, 0))
	if err != nil {
		return fmt.Errorf("read the queueing disciplines of all interfaces: %w", err)
	}
	for _, m := range all {
		if len(m) < headSize || Qdisc(m).parent() != atIngress {
			continue
		}
		at := int(native.Uint32(m[4:]))
		for _, parent := range []uint32{atIngress + 1, atIngress + 2} { // TC_H_MIN_INGRESS, TC_H_MIN_EGRESS
			filters, err := r.Send(unix.RTM_GETTFILTER, unix.NLM_F_DUMP, unix.RTM_NEWTFILTER, tcmsg(at, parent))
			if err != nil {
				return fmt.Errorf("read the traffic filters of interface %d: %w", at, err)
			}
			for _, filter := range filters {
				list, err := netlink.Behind(filter, headSize, "traffic filter")
				if err != nil {
					return err
				}
				if err := f(at, list); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// offloaded tells whether hardware does a filter that has one of some actions, and which.
func offloaded(filter netlink.Attributes, numbers []uint32) (number uint32, is bool) {
	const inHW = 1 << 2 // TCA_CLS_FLAGS_IN_HW
	// TCA_FLOWER_ACT, TCA_FLOWER_FLAGS and so on: the kinds that hardware can do.
	kinds := map[string][2]uint16{"flower": {3, 22}, "matchall": {2, 3}, "u32": {7, 11}, "bpf": {1, 9}}
	at, can := kinds[filter.Text(unix.TCA_KIND)]
	list, err := filter.Nested(unix.TCA_OPTIONS)
	if err != nil || !can || list.Number(at[1])&inHW == 0 {
		return 0, false
	}
	actions, _ := list.Nested(at[0])
	for a := range actions.All() {
		if m, err := cleanMirror(a.Value); err == nil && m != nil && slices.Contains(numbers, m.number()) {
			return m.number(), true
		}
	}
	return 0, false
}

// ApplyMirrors has others' actions send packets through the interface again. One that somebody
// has removed, or has given another interface, is as he wants it.
func ApplyMirrors(r *netlink.Route, index int, name string, want []Mirror) error {
	due, err := DueMirrors(r, name, want)
	if err != nil {
		return err
	}
	for _, m := range due {
		table := netlink.Append(nil, 1, m.on(index))
		request := netlink.Append(make([]byte, actionHead), rootActions|unix.NLA_F_NESTED, table)
		_, giveErr := r.Send(unix.RTM_NEWACTION, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, request)
		if giveErr != nil {
			err = hint.Join(err, fmt.Errorf("have the traffic control action mirred %s send packets through %s: %w", m, name, giveErr))
		}
	}
	return err
}

// DueMirrors returns those that are there and have no interface.
func DueMirrors(r *netlink.Route, name string, want []Mirror) (due []Mirror, err error) {
	if len(want) == 0 {
		return nil, nil
	}
	have, err := dumpMirrors(r)
	if err != nil {
		return nil, fmt.Errorf("read the actions that send packets through %s: %w", name, err)
	}
	return slices.DeleteFunc(slices.Clone(want), func(m Mirror) bool {
		return !slices.ContainsFunc(have, func(h Mirror) bool { return bytes.Equal(h, m) })
	}), nil
}
