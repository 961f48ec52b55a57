package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
	"gresnet/lib/netlink"
)

// ruleHead is the size of struct fib_rule_hdr, ruleFlags what a request may say in its flags (linux/fib_rules.h).
const (
	ruleHead  = 12
	ruleFlags = 1 << 1 // FIB_RULE_INVERT
)

// cleanRule makes a policy rule as dumped comparable and sendable.
func cleanRule(m []byte) (Message, error) {
	if len(m) < ruleHead {
		return nil, fmt.Errorf("policy rule message of %d bytes", len(m))
	}
	if _, err := netlink.Parse(m[ruleHead:]); err != nil {
		return nil, err
	}
	out := Message(slices.Clone(m))
	native.PutUint32(out[8:], native.Uint32(out[8:])&ruleFlags)
	return out, nil
}

// rules are the policy rules that name the interface or one of its addresses
// as the source. They stay when the interface leaves, and take effect again
// when one of its name is back (fib_rules.c:attach_rules); the job needs them
// for its interface's tables to be looked up.
func (c *Conn) rules(s Settings) ([]Message, error) {
	var list []Message
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, ruleHead)
		request[0] = family
		answers, err := c.send(unix.RTM_GETRULE, unix.NLM_F_DUMP, unix.RTM_NEWRULE, request)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			m, err := cleanRule(a)
			if err != nil {
				return nil, err
			}
			if m.family() == family && m.concerns(s) {
				list = append(list, m)
			}
		}
	}
	return list, nil
}

func (m Message) concerns(s Settings) bool {
	list, _ := netlink.Parse(m[ruleHead:])
	for _, kind := range []uint16{unix.FRA_IIFNAME, unix.FRA_OIFNAME} {
		if v, ok := list.Find(kind); ok && unix.ByteSliceToString(v) == s.Name {
			return true
		}
	}
	v := list.Value(unix.FRA_SRC)
	source, ok := netip.AddrFromSlice(v)
	return ok && int(m[2]) == source.BitLen() && slices.ContainsFunc(s.Addresses, func(a Message) bool { return a.Addr().Addr() == source })
}

// rule names a policy rule for people.
func (m Message) rule() string {
	list, _ := netlink.Parse(m[ruleHead:])
	v := list.Value(unix.FRA_PRIORITY)
	if len(v) != 4 {
		return "0"
	}
	return fmt.Sprint(native.Uint32(v))
}

// applyRules adds the rules that are missing. One beyond them is not the
// interface's, but of whoever wrote it.
func (c *Conn) applyRules(want Settings) error {
	if len(want.Rules) == 0 {
		return nil
	}
	have, err := c.rules(want)
	if err != nil {
		return fmt.Errorf("read the policy rules of %s: %w", want.Name, err)
	}
	for _, m := range netlink.Missing(want.Rules, have, Message.key) {
		_, err := c.send(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add policy rule %s of %s: %w", m.rule(), want.Name, err)
		}
	}
	return nil
}

// forbids tells a rule that lets nothing pass, to whatever is sent by the interface.
func (m Message) forbids(name string) bool {
	list, _ := netlink.Parse(m[ruleHead:])
	v, ok := list.Find(unix.FRA_OIFNAME)
	return ok && unix.ByteSliceToString(v) == name && m[7] >= blackhole && m[7] <= prohibit
}

// What a rule does in place of a lookup (FR_ACT_BLACKHOLE to FR_ACT_PROHIBIT, linux/fib_rules.h).
const (
	blackhole = 6
	prohibit  = 8
)

// despiteRules does what needs gateways of the interface. The kernel asks the rules whether
// one can be reached when a route by it is added (fib_semantics.c:fib_check_nh_v4_gw), and at
// no other time: an administrator who wrote the rule after the route has both. If it fails,
// the rules that forbid it are lifted for as long as it is tried again. If that is cut short,
// the next run gives them, as any rule that is missing.
func (c *Conn) despiteRules(want Settings, do func() error) error {
	err := do()
	if err == nil {
		return nil
	}
	lifted, liftErr := c.liftRules(want)
	if liftErr != nil || lifted == 0 {
		return hint.Join(err, liftErr)
	}
	return hint.Join(do(), c.applyRules(want))
}

// liftRules removes those rules of the interface that forbid its gateways, and tells how many.
func (c *Conn) liftRules(want Settings) (lifted int, err error) {
	for _, m := range want.Rules {
		if !m.forbids(want.Name) {
			continue
		}
		_, err := c.send(unix.RTM_DELRULE, unix.NLM_F_ACK, 0, m)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return lifted, fmt.Errorf("lift policy rule %s of %s: %w", m.rule(), want.Name, err)
		}
		lifted++
	}
	return lifted, nil
}
