// Package tc keeps the root queueing discipline of an interface, and the priorities that data center bridging
// gives the packets of applications. It refuses other traffic control.
package tc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Parents of a queueing discipline (linux/pkt_sched.h).
const (
	atRoot    = 0xffffffff // TC_H_ROOT
	atIngress = 0xfffffff1 // TC_H_INGRESS, of ingress and clsact
)

var native = binary.NativeEndian

// Qdisc is a queueing discipline as the kernel dumped it, made independent of the interface's index.
type Qdisc []byte

// headSize is the size of struct tcmsg.
const headSize = 20

// whole tells the queueing disciplines that are all that one message says: what they have below them is
// the kernel's choice, if they have anything. (pie and sfq have nothing either, but what they say of themselves is
// not what they were told.)
func whole(kind string) bool {
	return slices.Contains([]string{"noqueue", "pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "fq", "fq_codel", "codel", "cake", "mq"}, kind)
}

// classifies tells the whole queueing disciplines that take traffic filters, though they have no classes.
func classifies(kind string) bool { return kind == "fq_codel" || kind == "cake" }

// Read returns the interface's root queueing discipline, nil if it is one that the
// kernel makes by itself: such have no handle (sch_generic.c:attach_default_qdiscs).
func Read(r *netlink.Route, index int) (Qdisc, error) {
	m, err := get(r, index, atRoot)
	if err != nil || m == nil || native.Uint32(m[8:]) == 0 {
		return nil, err
	}
	return clean(m)
}

// clean makes a discipline as dumped comparable and sendable.
func clean(m []byte) (Qdisc, error) {
	list, err := netlink.Behind(m, headSize, "queueing discipline")
	if err != nil {
		return nil, err
	}
	out := Qdisc(slices.Clone(m[:headSize]))
	native.PutUint32(out[4:], 0)  // tcm_ifindex
	native.PutUint32(out[16:], 0) // tcm_info: users
	for _, kind := range []uint16{unix.TCA_KIND, unix.TCA_OPTIONS, unix.TCA_STAB} {
		if v, ok := list.Find(kind); ok {
			out = netlink.Append(out, kind, v)
		}
	}
	return out, nil
}

func (m Qdisc) attributes() netlink.Attributes { return netlink.Kept(m, headSize) }

func (m Qdisc) handle() uint32 { return native.Uint32(m[8:]) }
func (m Qdisc) parent() uint32 { return native.Uint32(m[12:]) }

// get returns a discipline as the kernel describes it, nil if there is none to be seen.
func get(r *netlink.Route, index int, parent uint32) ([]byte, error) {
	// The answer is a notification, which the asker has too if it wants an echo;
	// the acknowledgement is for when there is none.
	answers, err := r.Send(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK, unix.RTM_NEWQDISC, tcmsg(index, parent))
	// The kernel answers so if it has noop, as of an interface that is down, or
	// no ingress (sch_api.c:tc_get_qdisc), or was built without any.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil || len(answers) == 0 || len(answers[0]) < headSize {
		return nil, err
	}
	return answers[0], nil
}

func tcmsg(index int, parent uint32) []byte {
	m := make([]byte, headSize)
	native.PutUint32(m[4:], uint32(index))
	native.PutUint32(m[12:], parent)
	return m
}

// Kind names a queueing discipline.
func (m Qdisc) Kind() string {
	if len(m) < headSize {
		return "the kernel's default"
	}
	return m.attributes().Text(unix.TCA_KIND)
}

// Refuse refuses what is more than one discipline at the root. It reads the interface's disciplines out of all
// that the node has, which the kernel does not filter.
func Refuse(r *netlink.Route, index int, name string) error {
	all, err := r.Send(unix.RTM_GETQDISC, unix.NLM_F_DUMP, unix.RTM_NEWQDISC, tcmsg(0, 0))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // of a kernel that was built without any
		return fmt.Errorf("read the queueing disciplines of %s: %w", name, err)
	}
	for _, m := range all {
		if len(m) < headSize || int(int32(native.Uint32(m[4:]))) != index {
			continue
		}
		if what := refused(m); what != "" {
			return fmt.Errorf("%s has queueing discipline %s, which gresnet cannot restore", name, what)
		}
		if Qdisc(m).handle() == 0 {
			continue
		}
		if err := refuseFilters(r, index, name, m); err != nil {
			return err
		}
	}
	return nil
}

// refused describes a discipline, as dumped, that cannot be restored; it is empty for others.
func refused(m Qdisc) string {
	const rate = 2 // TCA_STATS_RATE_EST of linux/gen_stats.h
	stats, _ := m.attributes().Nested(unix.TCA_STATS2)
	_, estimates := stats.Find(rate)
	_, sized := m.attributes().Find(unix.TCA_STAB)
	switch kind := m.Kind(); {
	case m.parent() == atIngress:
		return kind
	case estimates: // the kernel tells only what it measured (gen_stats.c:gnet_stats_copy_rate_est)
		return kind + " with a rate estimator"
	case m.handle() == 0:
		return ""
	case sized: // the kernel tells only that there is one
		return kind + " with a table of packet sizes"
	case m.parent() != atRoot:
		return kind + " below its root"
	case !whole(kind):
		return kind
	}
	return ""
}

// refuseFilters refuses filters that choose where packets go in a discipline.
func refuseFilters(r *netlink.Route, index int, name string, of Qdisc) error {
	if !classifies(of.Kind()) {
		return nil
	}
	filters, err := r.Send(unix.RTM_GETTFILTER, unix.NLM_F_DUMP, unix.RTM_NEWTFILTER, tcmsg(index, of.handle()))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("read the traffic filters of %s: %w", name, err)
	}
	if len(filters) > 0 {
		return fmt.Errorf("%s has traffic filters, which gresnet cannot restore", name)
	}
	return nil
}

// Apply gives the interface its root queueing discipline, if it is not the kernel's choice.
func Apply(r *netlink.Route, index int, name string, want Qdisc) error {
	if want == nil {
		return nil
	}
	have, err := Read(r, index)
	if err != nil {
		return fmt.Errorf("read the queueing discipline of %s: %w", name, err)
	}
	if string(have) == string(want) {
		return nil
	}
	// Not all of a discipline can be changed (sch_fq_codel.c:fq_codel_change).
	if err := remove(r, index, have, name); err != nil {
		return err
	}
	if _, err := r.Send(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, want.on(index)); err != nil {
		return fmt.Errorf("set the queueing discipline of %s to %s: %w", name, want.Kind(), err)
	}
	return nil
}

// Clear leaves the choice of a queueing discipline to the kernel again, if none is wanted.
func Clear(r *netlink.Route, index int, name string, want Qdisc) error {
	if want != nil {
		return nil
	}
	have, err := Read(r, index)
	if err != nil {
		return fmt.Errorf("read the queueing discipline of %s: %w", name, err)
	}
	return remove(r, index, have, name)
}

// remove deletes the root discipline, nil if it is the kernel's.
func remove(r *netlink.Route, index int, have Qdisc, name string) error {
	if have == nil {
		return nil
	}
	if _, err := r.Send(unix.RTM_DELQDISC, unix.NLM_F_ACK, 0, tcmsg(index, atRoot)); err != nil {
		return fmt.Errorf("remove queueing discipline %s from %s: %w", have.Kind(), name, err)
	}
	return nil
}

// on returns a queueing discipline as a request for the interface with an index.
func (m Qdisc) on(index int) []byte {
	out := slices.Clone(m[:headSize])
	native.PutUint32(out[4:], uint32(index))
	for a := range m.attributes().All() {
		if a.Kind == unix.TCA_OPTIONS {
			a.Value = m.codelTimes(a.Value)
		}
		out = netlink.Append(out, a.Kind, a.Value)
	}
	return out
}

// codelTimes makes the options of codel and fq_codel say the times that they
// have: they are told in microseconds, kept in units of 1024 ns and rounded down
// both ways (codel.h:CODEL_SHIFT), so that what is dumped is one too few.
func (m Qdisc) codelTimes(options []byte) []byte {
	const target, interval = 1, 3
	threshold := map[string]uint16{"codel": 5, "fq_codel": 7}[m.Kind()]
	if threshold == 0 {
		return options
	}
	var out []byte
	list, _ := netlink.Parse(options)
	for a := range list.All() {
		v := slices.Clone(a.Value)
		if (a.Kind == target || a.Kind == interval || a.Kind == threshold) && len(v) == 4 {
			native.PutUint32(v, native.Uint32(v)+1)
		}
		out = netlink.Append(out, a.Kind, v)
	}
	return out
}
