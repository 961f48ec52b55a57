// Package rule keeps the policy rules that name an interface or one of its addresses.
package rule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/words/hint"
)

// headSize is the size of struct fib_rule_hdr, flags what a request may say in its flags (linux/fib_rules.h).
const (
	headSize = 12
	flags    = 1 << 1 // FIB_RULE_INVERT
)

// Rule is a policy rule as the kernel dumped it.
type Rule []byte

var native = binary.NativeEndian

// clean makes a policy rule as dumped comparable and sendable.
func clean(m []byte) (Rule, error) {
	if _, err := netlink.Behind(m, headSize, "policy rule"); err != nil {
		return nil, err
	}
	out := Rule(slices.Clone(m))
	native.PutUint32(out[8:], native.Uint32(out[8:])&flags)
	return out, nil
}

// Interface is what rules name an interface by.
type Interface struct {
	Name      string
	Addresses []netip.Addr
}

// Read returns the policy rules that name the interface or one of its addresses
// as the source. They stay when the interface leaves, and take effect again
// when one of its name is back (fib_rules.c:attach_rules); the job needs them
// for its interface's tables to be looked up.
func Read(r *netlink.Route, i Interface) ([]Rule, error) {
	var list []Rule
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, headSize)
		request[0] = family
		answers, err := r.Send(unix.RTM_GETRULE, unix.NLM_F_DUMP, unix.RTM_NEWRULE, request)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all, err := netlink.Cleaned(answers, clean)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.DeleteFunc(all, func(m Rule) bool { return m[0] != family || !m.concerns(i) })...)
	}
	return list, nil
}

func (m Rule) attributes() netlink.Attributes { return netlink.Kept(m, headSize) }

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

// Apply adds the rules that are missing. One beyond them is not the
// interface's, but of whoever wrote it.
func Apply(r *netlink.Route, i Interface, want []Rule) error {
	if len(want) == 0 {
		return nil
	}
	have, err := Read(r, i)
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

// forbids tells a rule that lets nothing pass, to whatever is sent by the interface.
func (m Rule) forbids(name string) bool {
	return m.attributes().Text(unix.FRA_OIFNAME) == name && m[7] >= blackhole && m[7] <= prohibit
}

// What a rule does in place of a lookup (FR_ACT_BLACKHOLE to FR_ACT_PROHIBIT, linux/fib_rules.h).
const (
	blackhole = 6
	prohibit  = 8
)

// Despite does what needs gateways of the interface. The kernel asks the rules whether
// one can be reached when a route by it is added (fib_semantics.c:fib_check_nh_v4_gw), and at
// no other time: an administrator who wrote the rule after the route has both. If it fails,
// the rules that forbid it are lifted for as long as it is tried again. If that is cut short,
// the next run gives them, as any rule that is missing.
func Despite(r *netlink.Route, i Interface, want []Rule, do func() error) error {
	err := do()
	if err == nil {
		return nil
	}
	lifted, liftErr := lift(r, i, want)
	if liftErr != nil || lifted == 0 {
		return hint.Join(err, liftErr)
	}
	return hint.Join(do(), Apply(r, i, want))
}

// lift removes those rules of the interface that forbid its gateways, and tells how many.
func lift(r *netlink.Route, i Interface, want []Rule) (lifted int, err error) {
	for _, m := range want {
		if !m.forbids(i.Name) {
			continue
		}
		_, err := r.Send(unix.RTM_DELRULE, unix.NLM_F_ACK, 0, m)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return lifted, fmt.Errorf("lift policy rule %s of %s: %w", m, i.Name, err)
		}
		lifted++
	}
	return lifted, nil
}

// Protocol says who made a rule (rtnetlink(7)).
func (m Rule) Protocol() byte { return byte(m.attributes().Number(unix.FRA_PROTOCOL)) }
