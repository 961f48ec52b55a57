package inet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netlink"
)

// ruleHead is the size of struct fib_rule_hdr, flags what a request may say in its flags (linux/fib_rules.h).
const (
	ruleHead  = 12
	ruleFlags = 1 << 1 // FIB_RULE_INVERT
)

// Rule is a policy rule as the kernel dumped it.
type Rule []byte

var nativeRule = binary.NativeEndian

// cleanRule makes a policy rule as dumped comparable and sendable.
func cleanRule(m []byte) (Rule, error) {
	if _, err := netlink.Behind(m, ruleHead, "policy rule"); err != nil {
		return nil, err
	}
	out := Rule(slices.Clone(m))
	nativeRule.PutUint32(out[8:], nativeRule.Uint32(out[8:])&ruleFlags)
	return out, nil
}

// Interface is what rules name an interface by.
type Interface struct {
	Name      string
	Addresses []netip.Addr
}

// ReadRules returns the policy rules that name the interface or one of its addresses
// as the source. They stay when the interface leaves, and take effect again
// when one of its name is back (fib_rules.c:attach_rules); the job needs them
// for its interface's tables to be looked up.
func ReadRules(r *netlink.Route, i Interface) ([]Rule, error) {
	var list []Rule
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, ruleHead)
		request[0] = family
		answers, err := r.Send(unix.RTM_GETRULE, unix.NLM_F_DUMP, unix.RTM_NEWRULE, request)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all, err := netlink.Cleaned(answers, cleanRule)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.DeleteFunc(all, func(m Rule) bool { return m[0] != family || !m.concerns(i) })...)
	}
	return list, nil
}

func (m Rule) attributes() netlink.Attributes { return netlink.Kept(m, ruleHead) }

func (m Rule) concerns(i Interface) bool {
	list := m.attributes()
	if i.Name == list.Text(unix.FRA_IIFNAME) || i.Name == list.Text(unix.FRA_OIFNAME) {
		return true
	}
	source := list.Addr(unix.FRA_SRC)
	return source.IsValid() && int(m[2]) == source.BitLen() && slices.Contains(i.Addresses, source)
}

// String names a policy rule for people.
func (m Rule) String() string { return fmt.Sprint(m.attributes().Number(unix.FRA_PRIORITY)) }

// ApplyRules adds the rules that are missing. One beyond them is not the
// interface's, but of whoever wrote it.
func ApplyRules(r *netlink.Route, i Interface, want []Rule) error {
	if len(want) == 0 {
		return nil
	}
	have, err := ReadRules(r, i)
	if err != nil {
		return fmt.Errorf("read the policy rules of %s: %w", i.Name, err)
	}
	for _, m := range netlink.Missing(want, have, netlink.Key) {
		_, err := r.Send(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add policy rule %s of %s: %w", m, i.Name, err)
		}
	}
	return nil
}

// ownProtocol marks rules that gresnet adds for a request.
const ownProtocol = 103

// IsOwn tells a rule that Despite added. If a run was killed before it removed the rule, a later one does.
func (m Rule) IsOwn() bool { return m.Protocol() == ownProtocol }

// allow returns the rule that has the kernel look for a gateway of an interface in a table.
func allow(name string, gateway netip.Addr, table uint32) Rule {
	m := make(Rule, ruleHead)
	m[0], m[1], m[7] = unix.AF_INET, uint8(gateway.BitLen()), unix.FR_ACT_TO_TBL
	m = netlink.Append(m, unix.FRA_DST, gateway.AsSlice())
	m = netlink.AppendUint32(m, unix.FRA_PRIORITY, 0) // after that of the local table, before all others
	m = netlink.AppendText(m, unix.FRA_OIFNAME, name)
	m = netlink.AppendUint32(m, unix.FRA_TABLE, table)
	return netlink.Append(m, unix.FRA_PROTOCOL, []byte{ownProtocol})
}

// Way is a gateway, and the tables that may have the way to it.
type Way struct {
	Gateway netip.Addr
	Tables  []uint32
}

// DespiteRules does what needs gateways of the interface. The kernel asks the rules whether an IPv4 gateway can be reached
// when a route by it is added (fib_semantics.c:fib_check_nh_v4_gw), and at no other time: an administrator who wrote
// the rule after the route has both. If it fails, Despite does it again with rules that lead to the gateways.
func DespiteRules(r *netlink.Route, i Interface, ways []Way, do func() error) error {
	err := do()
	if err == nil || len(ways) == 0 {
		return err
	}
	for _, w := range ways {
		for _, table := range w.Tables {
			if _, err := r.Send(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_ACK, 0, allow(i.Name, w.Gateway, table)); err != nil {
				return hint.Join(fmt.Errorf("add a policy rule for %s: %w", i.Name, err), RemoveOwnRules(r, i))
			}
		}
	}
	return hint.Join(do(), RemoveOwnRules(r, i))
}

// RemoveOwnRules removes what Despite added for an interface.
func RemoveOwnRules(r *netlink.Route, i Interface) error {
	all, err := ReadRules(r, i)
	if err != nil {
		return fmt.Errorf("read the policy rules of %s: %w", i.Name, err)
	}
	for _, m := range all {
		if !m.IsOwn() {
			continue
		}
		if _, err := r.Send(unix.RTM_DELRULE, unix.NLM_F_ACK, 0, m); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove policy rule %s of %s: %w", m, i.Name, err)
		}
	}
	return nil
}

// Protocol says who made a rule (rtnetlink(7)).
func (m Rule) Protocol() byte { return byte(m.attributes().Number(unix.FRA_PROTOCOL)) }
