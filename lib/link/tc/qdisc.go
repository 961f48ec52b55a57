// Package tc keeps the traffic control of an interface: its queueing disciplines, and the
// actions of others' filters that send packets through it.
package tc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/words/hint"
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

// plain tells the queueing disciplines that are all that one message says:
// they have no classes and no disciplines below them. (pie and sfq have none either, but
// what they say of themselves is not what they were told.)
func plain(kind string) bool {
	return slices.Contains([]string{"noqueue", "pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "fq", "fq_codel", "codel", "cake"}, kind)
}

// perQueue tells the queueing disciplines that have one of its own for each queue of the
// interface, and do nothing else that they do not say.
func perQueue(kind string) bool { return kind == "mq" || kind == "mqprio" }

// classifies tells the plain queueing disciplines that take traffic filters, though they have no classes.
func classifies(kind string) bool { return kind == "fq_codel" || kind == "cake" }

// root returns the interface's root queueing discipline, nil if it is one that the
// kernel makes by itself: such have no handle (sch_generic.c:attach_default_qdiscs).
func root(r *netlink.Route, index int) (Qdisc, error) {
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

// dump returns the queueing disciplines of an interface, out of all that the node has: the
// kernel does not filter them.
func dump(r *netlink.Route, index int) ([][]byte, error) {
	all, err := r.Send(unix.RTM_GETQDISC, unix.NLM_F_DUMP, unix.RTM_NEWQDISC, tcmsg(0, 0))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // a kernel that was built without any
	}
	return slices.DeleteFunc(all, func(m []byte) bool {
		return len(m) < headSize || int(int32(native.Uint32(m[4:]))) != index
	}), err
}

// Qdiscs are an interface's queueing disciplines.
type Qdiscs struct {
	Qdisc  Qdisc    `json:"qdisc,omitempty"`  // at the root; empty is the kernel's choice
	Queues []Qdisc  `json:"queues,omitempty"` // disciplines of the root's queues that are not the kernel's choice
	Made   []string `json:"made,omitempty"`   // kinds that were the kernel's choice, while it was up
}

// ReadQdiscs reads what the interface, which is up or not, has of queueing disciplines.
func ReadQdiscs(r *netlink.Route, index int, up bool) (q Qdiscs, err error) {
	all, err := dump(r, index)
	if err != nil {
		return Qdiscs{}, err
	}
	for _, dumped := range all {
		m, err := clean(dumped)
		if err != nil {
			return Qdiscs{}, err
		}
		kind := m.Kind()
		switch {
		case m.parent() == atIngress:
		case m.handle() != 0 && m.parent() == atRoot:
			q.Qdisc = m
		case m.handle() != 0:
			q.Queues = append(q.Queues, m)
		case up && kind != "mq" && kind != "noqueue" && !slices.Contains(q.Made, kind):
			q.Made = append(q.Made, kind)
		}
	}
	// The kernel has them in the order of a hash.
	slices.SortFunc(q.Queues, func(a, b Qdisc) int { return cmp.Compare(a.parent(), b.parent()) })
	slices.Sort(q.Made)
	return q, nil
}

func (m Qdisc) attributes() netlink.Attributes { return netlink.Kept(m, headSize) }

func (m Qdisc) handle() uint32 { return native.Uint32(m[8:]) }
func (m Qdisc) parent() uint32 { return native.Uint32(m[12:]) }

// Queue names the queue that a discipline is of, counted from 0 as in /sys.
func (m Qdisc) Queue() string {
	return fmt.Sprintf("%s of queue %d", m.Kind(), m.parent()&0xffff-1)
}

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

// RefuseQdiscs refuses what is more than plain disciplines, one at the root or one for each queue.
// sending says how many queues the interface sends by, if that can be known.
func RefuseQdiscs(r *netlink.Route, index int, name string, q Qdiscs, sending func() (queues int, known bool, err error)) error {
	cannot := func(what string) error {
		return fmt.Errorf("%s has queueing discipline %s, which gresnet cannot restore", name, what)
	}
	all, err := dump(r, index)
	if err != nil {
		return fmt.Errorf("read the queueing disciplines of %s: %w", name, err)
	}
	for _, m := range all {
		if Qdisc(m).parent() == atIngress {
			return cannot(Qdisc(m).Kind())
		}
		if estimates(m) {
			return cannot(Qdisc(m).Kind() + " with a rate estimator")
		}
	}
	if q.Qdisc == nil {
		return nil
	}
	root := q.Qdisc.Kind()
	if !plain(root) && !perQueue(root) {
		return cannot(root)
	}
	for _, m := range q.Queues {
		if !plain(m.Kind()) {
			return cannot(m.Queue())
		}
	}
	for _, m := range append([]Qdisc{q.Qdisc}, q.Queues...) {
		if err := refuseFilters(r, index, name, m); err != nil {
			return err
		}
	}
	if !perQueue(root) {
		return nil
	}
	queues, known, err := sending()
	if err != nil || !known {
		return err
	}
	return q.refuseBare(name, len(all)-1, queues)
}

// estimates tells of a dumped discipline whether it measures its own rate. The kernel tells no more of
// an estimator than what it has measured (gen_stats.c:gnet_stats_copy_rate_est).
func estimates(m []byte) bool {
	const rate = 2 // TCA_STATS_RATE_EST of linux/gen_stats.h
	stats, _ := Qdisc(m).attributes().Nested(unix.TCA_STATS2)
	_, is := stats.Find(rate)
	return is
}

// refuseFilters refuses what chooses where packets go in a discipline, and what a message does
// not say of it: the kernel tells no more of a table of packet sizes than that there is one.
func refuseFilters(r *netlink.Route, index int, name string, of Qdisc) error {
	kind := of.Kind()
	if _, sized := of.attributes().Find(unix.TCA_STAB); sized {
		return fmt.Errorf("%s has queueing discipline %s with a table of packet sizes, which gresnet cannot restore", name, kind)
	}
	if !classifies(kind) {
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

// refuseBare refuses queues whose discipline somebody has deleted: they drop all packets. It refuses traffic
// classes with queues that the interface has no more, too: the kernel keeps such, and takes no such request
// (sch_mqprio_lib.c:mqprio_validate_qopt).
func (q Qdiscs) refuseBare(name string, have, queues int) error {
	if have < queues {
		return fmt.Errorf("%s has %d queues and queueing disciplines for %d of them, which gresnet cannot restore", name, queues, have)
	}
	if n := q.Qdisc.classQueues(); n > queues {
		return fmt.Errorf("%s has %d queues and queueing discipline mqprio for %d, which gresnet cannot restore", name, queues, n)
	}
	return nil
}

// classQueues returns how many queues an interface must have for the traffic classes of mqprio; 0 for other
// disciplines.
func (m Qdisc) classQueues() (n int) {
	if m.Kind() != "mqprio" {
		return 0
	}
	o := m.attributes().Value(unix.TCA_OPTIONS)
	if len(o) < mqprioSize {
		return 0
	}
	for i := range min(int(o[mqprioClasses]), 16) {
		n = max(n, int(native.Uint16(o[mqprioCounts+2*i:]))+int(native.Uint16(o[mqprioOffsets+2*i:])))
	}
	return n
}

// Where struct tc_mqprio_qopt (linux/pkt_sched.h) has the number of classes, whether hardware does it, and the counts
// and offsets of 16 classes.
const mqprioClasses, mqprioHardware, mqprioCounts, mqprioOffsets, mqprioSize = 0, 17, 18, 50, 82

// withoutEntries removes from the options of mqprio what the kernel tells of each class since 6.3, and takes only if
// hardware does it (sch_mqprio.c:mqprio_parse_nlattr).
func (m Qdisc) withoutEntries(options []byte) []byte {
	if m.Kind() == "mqprio" && len(options) > mqprioSize && options[mqprioHardware] == 0 {
		return options[:mqprioSize]
	}
	return options
}

// ApplyQdiscs gives the interface its queueing disciplines, if they are not the kernel's choice.
func ApplyQdiscs(r *netlink.Route, index int, name string, up bool, want Qdiscs) error {
	if want.Qdisc == nil {
		return nil
	}
	have, err := root(r, index)
	if err != nil {
		return fmt.Errorf("read the queueing discipline of %s: %w", name, err)
	}
	if string(have) == string(want.Qdisc) {
		same, err := hasQueues(r, index, name, up, want)
		if err != nil || same {
			return err
		}
	}
	// Not all of a discipline can be changed (sch_fq_codel.c:fq_codel_change), and a queue's
	// cannot be given back to the kernel's choice.
	if err := remove(r, index, have, name); err != nil {
		return err
	}
	if err := give(r, index, want.Qdisc); err != nil {
		return fmt.Errorf("set the queueing discipline of %s to %s: %w", name, want.Qdisc.Kind(), err)
	}
	for _, m := range want.Queues {
		if err := give(r, index, m); err != nil {
			return fmt.Errorf("set the queueing disciplines of %s to %s: %w", name, m.Queue(), err)
		}
	}
	return nil
}

// hasQueues tells whether the disciplines of the queues are those that are wanted.
func hasQueues(r *netlink.Route, index int, name string, up bool, want Qdiscs) (bool, error) {
	if !perQueue(want.Qdisc.Kind()) {
		return true, nil
	}
	have, err := ReadQdiscs(r, index, up)
	if err != nil {
		return false, fmt.Errorf("read the queueing disciplines of %s: %w", name, err)
	}
	return len(netlink.Differences("", have.Queues, want.Queues, netlink.Key, Qdisc.Queue)) == 0, nil
}

func give(r *netlink.Route, index int, m Qdisc) error {
	_, err := r.Send(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.on(index))
	return err
}

// RemoveQdisc leaves the choice of a queueing discipline to the kernel again, if none is wanted.
func RemoveQdisc(r *netlink.Route, index int, name string, want Qdiscs) error {
	if want.Qdisc != nil {
		return nil
	}
	have, err := root(r, index)
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

// RemakeQdiscs has the kernel choose again what is its choice.
func RemakeQdiscs(r *netlink.Route, index int, name string, up bool, want Qdiscs) error {
	have, err := root(r, index)
	if err == nil && have == nil {
		// What the kernel has chosen cannot be deleted, but another can, in its place.
		other := Qdisc(netlink.AppendText(tcmsg(0, atRoot), unix.TCA_KIND, "pfifo"))
		if err = give(r, index, other); err == nil {
			have = other
		}
	}
	if err != nil {
		return fmt.Errorf("replace the kernel's own queueing discipline of %s: %w", name, err)
	}
	return hint.Join(remove(r, index, have, name), ApplyQdiscs(r, index, name, up, want))
}

// on returns a queueing discipline as a request for the interface with an index.
func (m Qdisc) on(index int) []byte {
	out := slices.Clone(m[:headSize])
	native.PutUint32(out[4:], uint32(index))
	for a := range m.attributes().All() {
		if a.Kind == unix.TCA_OPTIONS {
			a.Value = m.withoutEntries(m.codelTimes(a.Value))
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
