package link

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// Parents of a queueing discipline (linux/pkt_sched.h).
const (
	atRoot    = 0xffffffff // TC_H_ROOT
	atIngress = 0xfffffff1 // TC_H_INGRESS, of ingress and clsact
)

// qdiscHead is the size of struct tcmsg.
const qdiscHead = 20

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

// qdisc is the interface's root queueing discipline, nil if it is one that the
// kernel makes by itself: such have no handle (sch_generic.c:attach_default_qdiscs).
func (c *Conn) qdisc(index int) (Message, error) {
	m, err := c.getQdisc(index, atRoot)
	if err != nil || m == nil || native.Uint32(m[8:]) == 0 {
		return nil, err
	}
	return cleanQdisc(m)
}

// cleanQdisc makes a discipline as dumped comparable and sendable.
func cleanQdisc(m []byte) (Message, error) {
	list, err := netlink.Parse(m[qdiscHead:])
	if err != nil {
		return nil, err
	}
	out := Message(slices.Clone(m[:qdiscHead]))
	native.PutUint32(out[4:], 0)  // tcm_ifindex
	native.PutUint32(out[16:], 0) // tcm_info: users
	for _, kind := range []uint16{unix.TCA_KIND, unix.TCA_OPTIONS, unix.TCA_STAB} {
		if v, ok := list.Find(kind); ok {
			out = netlink.Append(out, kind, v)
		}
	}
	return out, nil
}

// dumpQdiscs are the queueing disciplines of an interface, out of all that the node has: the
// kernel does not filter them.
func (c *Conn) dumpQdiscs(index int) ([][]byte, error) {
	all, err := c.send(unix.RTM_GETQDISC, unix.NLM_F_DUMP, unix.RTM_NEWQDISC, tcmsg(0, 0))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // a kernel that was built without any
	}
	return slices.DeleteFunc(all, func(m []byte) bool {
		return len(m) < qdiscHead || int(int32(native.Uint32(m[4:]))) != index
	}), err
}

// readQdiscs reads what the interface has of queueing disciplines.
func (c *Conn) readQdiscs(index int, up bool, s *Settings) error {
	all, err := c.dumpQdiscs(index)
	if err != nil {
		return err
	}
	s.Qdisc, s.Queues, s.Made = nil, nil, nil
	for _, dumped := range all {
		m, err := cleanQdisc(dumped)
		if err != nil {
			return err
		}
		kind := m.qdiscKind()
		switch {
		case m.parent() == atIngress:
		case m.handle() != 0 && m.parent() == atRoot:
			s.Qdisc = m
		case m.handle() != 0:
			s.Queues = append(s.Queues, m)
		case up && kind != "mq" && kind != "noqueue" && !slices.Contains(s.Made, kind):
			s.Made = append(s.Made, kind)
		}
	}
	// The kernel has them in the order of a hash.
	slices.SortFunc(s.Queues, func(a, b Message) int { return cmp.Compare(a.parent(), b.parent()) })
	slices.Sort(s.Made)
	return nil
}

func (m Message) handle() uint32 { return native.Uint32(m[8:]) }
func (m Message) parent() uint32 { return native.Uint32(m[12:]) }

// queue names the queue that a discipline is of, counted from 0 as in /sys.
func (m Message) queue() string {
	return fmt.Sprintf("%s of queue %d", m.qdiscKind(), m.parent()&0xffff-1)
}

// getQdisc is a discipline as the kernel describes it, nil if there is none to be seen.
func (c *Conn) getQdisc(index int, parent uint32) ([]byte, error) {
	// The answer is a notification, which the asker has too if it wants an echo;
	// the acknowledgement is for when there is none.
	answers, err := c.send(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK, unix.RTM_NEWQDISC, tcmsg(index, parent))
	// The kernel answers so if it has noop, as of an interface that is down, or
	// no ingress (sch_api.c:tc_get_qdisc), or was built without any.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil || len(answers) == 0 || len(answers[0]) < qdiscHead {
		return nil, err
	}
	return answers[0], nil
}

func tcmsg(index int, parent uint32) []byte {
	m := make([]byte, qdiscHead)
	native.PutUint32(m[4:], uint32(index))
	native.PutUint32(m[12:], parent)
	return m
}

// qdiscKind names a queueing discipline.
func (m Message) qdiscKind() string {
	if len(m) < qdiscHead {
		return "the kernel's default"
	}
	list, _ := netlink.Parse(m[qdiscHead:])
	kind := list.Value(unix.TCA_KIND)
	return unix.ByteSliceToString(kind)
}

// refuseQdisc refuses what is more than plain disciplines, one at the root or one for each queue.
func (c *Conn) refuseQdisc(i described, s Settings) error {
	cannot := func(what string) error {
		return fmt.Errorf("%s has queueing discipline %s, which gresnet cannot restore", s.Name, what)
	}
	all, err := c.dumpQdiscs(i.Index)
	if err != nil {
		return fmt.Errorf("read the queueing disciplines of %s: %w", s.Name, err)
	}
	for _, m := range all {
		if Message(m).parent() == atIngress {
			return cannot(Message(m).qdiscKind())
		}
	}
	if s.Qdisc == nil {
		return nil
	}
	root := s.Qdisc.qdiscKind()
	if !plain(root) && !perQueue(root) {
		return cannot(root)
	}
	for _, q := range s.Queues {
		if !plain(q.qdiscKind()) {
			return cannot(q.queue())
		}
	}
	for _, m := range append([]Message{s.Qdisc}, s.Queues...) {
		if err := c.refuseFilters(i.Index, s, m); err != nil {
			return err
		}
	}
	if !perQueue(root) {
		return nil
	}
	return c.refuseBare(i.Interface, s, len(all)-1)
}

// refuseFilters refuses what chooses where packets go in a discipline, and what a message does
// not say of it: the kernel tells no more of a table of packet sizes than that there is one.
func (c *Conn) refuseFilters(index int, s Settings, of Message) error {
	kind := of.qdiscKind()
	list, _ := netlink.Parse(of[qdiscHead:])
	if _, sized := list.Find(unix.TCA_STAB); sized {
		return fmt.Errorf("%s has queueing discipline %s with a table of packet sizes, which gresnet cannot restore", s.Name, kind)
	}
	if !classifies(kind) {
		return nil
	}
	filters, err := c.send(unix.RTM_GETTFILTER, unix.NLM_F_DUMP, unix.RTM_NEWTFILTER, tcmsg(index, of.handle()))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("read the traffic filters of %s: %w", s.Name, err)
	}
	if len(filters) > 0 {
		return fmt.Errorf("%s has traffic filters, which gresnet cannot restore", s.Name)
	}
	return nil
}

// refuseBare refuses queues whose discipline somebody has deleted: they drop all packets. It refuses traffic
// classes with queues that the interface has no more, too: the kernel keeps such, and takes no such request
// (sch_mqprio_lib.c:mqprio_validate_qopt).
func (c *Conn) refuseBare(i Interface, s Settings, have int) error {
	f, err := c.queues(i).Open()
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	queues, err := f.Sending()
	if err != nil {
		return err
	}
	if have < queues {
		return fmt.Errorf("%s has %d queues and queueing disciplines for %d of them, which gresnet cannot restore", s.Name, queues, have)
	}
	if n := s.Qdisc.classQueues(); n > queues {
		return fmt.Errorf("%s has %d queues and queueing discipline mqprio for %d, which gresnet cannot restore", s.Name, queues, n)
	}
	return nil
}

// classQueues returns how many queues an interface must have for the traffic classes of mqprio; 0 for other
// disciplines.
func (m Message) classQueues() (n int) {
	if m.qdiscKind() != "mqprio" {
		return 0
	}
	list, _ := netlink.Parse(m[qdiscHead:])
	o := list.Value(unix.TCA_OPTIONS)
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
func (m Message) withoutEntries(options []byte) []byte {
	if m.qdiscKind() == "mqprio" && len(options) > mqprioSize && options[mqprioHardware] == 0 {
		return options[:mqprioSize]
	}
	return options
}

// applyQdisc gives the interface its queueing disciplines, if they are not the kernel's choice.
func (c *Conn) applyQdisc(index int, want Settings) error {
	if want.Qdisc == nil {
		return nil
	}
	have, err := c.qdisc(index)
	if err != nil {
		return fmt.Errorf("read the queueing discipline of %s: %w", want.Name, err)
	}
	if string(have) == string(want.Qdisc) {
		same, err := c.hasQueues(index, want)
		if err != nil || same {
			return err
		}
	}
	// Not all of a discipline can be changed (sch_fq_codel.c:fq_codel_change), and a queue's
	// cannot be given back to the kernel's choice.
	if err := c.deleteQdisc(index, have, want.Name); err != nil {
		return err
	}
	if err := c.giveQdisc(index, want.Qdisc); err != nil {
		return fmt.Errorf("set the queueing discipline of %s to %s: %w", want.Name, want.Qdisc.qdiscKind(), err)
	}
	for _, m := range want.Queues {
		if err := c.giveQdisc(index, m); err != nil {
			return fmt.Errorf("set the queueing disciplines of %s to %s: %w", want.Name, m.queue(), err)
		}
	}
	return nil
}

// hasQueues tells whether the disciplines of the queues are those that are wanted.
func (c *Conn) hasQueues(index int, want Settings) (bool, error) {
	if !perQueue(want.Qdisc.qdiscKind()) {
		return true, nil
	}
	var have Settings
	if err := c.readQdiscs(index, want.Up, &have); err != nil {
		return false, fmt.Errorf("read the queueing disciplines of %s: %w", want.Name, err)
	}
	return len(netlink.Differences("", have.Queues, want.Queues, Message.key, Message.queue)) == 0, nil
}

func (c *Conn) giveQdisc(index int, m Message) error {
	_, err := c.send(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.qdiscOn(index))
	return err
}

// removeQdisc leaves the choice of a queueing discipline to the kernel again.
func (c *Conn) removeQdisc(index int, want Settings) error {
	if want.Qdisc != nil {
		return nil
	}
	have, err := c.qdisc(index)
	if err != nil {
		return fmt.Errorf("read the queueing discipline of %s: %w", want.Name, err)
	}
	return c.deleteQdisc(index, have, want.Name)
}

// deleteQdisc deletes the root discipline, nil if it is the kernel's.
func (c *Conn) deleteQdisc(index int, have Message, name string) error {
	if have == nil {
		return nil
	}
	if _, err := c.send(unix.RTM_DELQDISC, unix.NLM_F_ACK, 0, tcmsg(index, atRoot)); err != nil {
		return fmt.Errorf("remove queueing discipline %s from %s: %w", have.qdiscKind(), name, err)
	}
	return nil
}

// qdiscOn is a queueing discipline as a request for the interface with an index.
func (m Message) qdiscOn(index int) []byte {
	out := slices.Clone(m[:qdiscHead])
	native.PutUint32(out[4:], uint32(index))
	list, _ := netlink.Parse(m[qdiscHead:])
	for a := range list.All() {
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
func (m Message) codelTimes(options []byte) []byte {
	const target, interval = 1, 3
	threshold := map[string]uint16{"codel": 5, "fq_codel": 7}[m.qdiscKind()]
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
