package link

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
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

// qdisc is the interface's root queueing discipline, nil if it is one that the
// kernel makes by itself: such have no handle (sch_generic.c:attach_default_qdiscs).
func (c *Conn) qdisc(index int) (Message, error) {
	m, err := c.getQdisc(index, atRoot)
	if err != nil || m == nil || native.Uint32(m[8:]) == 0 {
		return nil, err
	}
	list, err := attributes(m[qdiscHead:])
	if err != nil {
		return nil, err
	}
	out := Message(slices.Clone(m[:qdiscHead]))
	native.PutUint32(out[4:], 0)  // tcm_ifindex
	native.PutUint32(out[16:], 0) // tcm_info: users
	for _, kind := range []uint16{unix.TCA_KIND, unix.TCA_OPTIONS} {
		if v, ok := find(list, kind); ok {
			out = attribute(out, kind, v)
		}
	}
	return out, nil
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
	list, _ := attributes(m[qdiscHead:])
	kind, _ := find(list, unix.TCA_KIND)
	return unix.ByteSliceToString(kind)
}

// refuseQdisc refuses what is more than one plain discipline at the root.
func (c *Conn) refuseQdisc(index int, s Settings) error {
	if s.Qdisc != nil && !plain(s.Qdisc.qdiscKind()) {
		return fmt.Errorf("%s has queueing discipline %s, which gresnet cannot restore", s.Name, s.Qdisc.qdiscKind())
	}
	m, err := c.getQdisc(index, atIngress)
	if err != nil {
		return fmt.Errorf("read the ingress of %s: %w", s.Name, err)
	}
	if m != nil {
		return fmt.Errorf("%s has queueing discipline %s, which gresnet cannot restore", s.Name, Message(m).qdiscKind())
	}
	if s.Qdisc == nil {
		return nil
	}
	filters, err := c.send(unix.RTM_GETTFILTER, unix.NLM_F_DUMP, unix.RTM_NEWTFILTER, tcmsg(index, native.Uint32(s.Qdisc[8:])))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("read the traffic filters of %s: %w", s.Name, err)
	}
	if len(filters) > 0 {
		return fmt.Errorf("%s has traffic filters, which gresnet cannot restore", s.Name)
	}
	return nil
}

// applyQdisc gives the interface its queueing discipline, if it is not the kernel's choice.
func (c *Conn) applyQdisc(index int, want Settings) error {
	if want.Qdisc == nil {
		return nil
	}
	have, err := c.qdisc(index)
	if err != nil {
		return fmt.Errorf("read the queueing discipline of %s: %w", want.Name, err)
	}
	if string(have) == string(want.Qdisc) {
		return nil
	}
	// Not all of a discipline can be changed (sch_fq_codel.c:fq_codel_change).
	if err := c.deleteQdisc(index, have, want.Name); err != nil {
		return err
	}
	_, err = c.send(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, want.Qdisc.qdiscOn(index))
	if err != nil {
		return fmt.Errorf("set the queueing discipline of %s to %s: %w", want.Name, want.Qdisc.qdiscKind(), err)
	}
	return nil
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
	list, _ := attributes(m[qdiscHead:])
	for a := range list.all() {
		if a.kind == unix.TCA_OPTIONS {
			a.value = m.codelTimes(a.value)
		}
		out = attribute(out, a.kind, a.value)
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
	list, _ := attributes(options)
	for a := range list.all() {
		v := slices.Clone(a.value)
		if (a.kind == target || a.kind == interval || a.kind == threshold) && len(v) == 4 {
			native.PutUint32(v, native.Uint32(v)+1)
		}
		out = attribute(out, a.kind, v)
	}
	return out
}
