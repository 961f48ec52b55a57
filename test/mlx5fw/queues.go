package main

import (
	"encoding/binary"
	"fmt"
)

// Queues lie in pages of the guest: completion and event queues, which the firmware fills, and
// send and receive queues, which it empties.

const (
	eventCompletion = 0x00
	eventPort       = 0x09
	eventCommand    = 0x0a
	eventAccess     = 0x11 // a queue pair's peer asked for memory that it may not have
)

// A ring is entries of a power of two, in pages.
type ring struct {
	memory            *memory
	pages             []uint64
	logPage, logEntry int
	logSize           int
	begin             uint64
}

// offset returns where in its first page a queue begins: the driver counts in 64ths of a page, whatever its size.
func offset(parts uint64, logPage int) uint64 { return parts << (logPage - 6) }

func newRing(m *memory, pages buffer, logPage, logEntry, logSize int, begin uint64) ring {
	r := ring{memory: m, logPage: logPage, logEntry: logEntry, logSize: logSize, begin: begin}
	need := (begin + 1<<(logEntry+logSize) + 1<<logPage - 1) >> logPage
	for i := 0; uint64(i) < need && 8*i+8 <= len(pages); i++ {
		r.pages = append(r.pages, binary.BigEndian.Uint64(pages[8*i:])&^7)
	}
	return r
}

// entry returns the one that a counter which never wraps stands for.
func (r *ring) entry(counter uint32) buffer {
	off := r.begin + uint64(counter)&(1<<r.logSize-1)<<r.logEntry
	page := int(off >> r.logPage)
	if page >= len(r.pages) {
		panic(fault{r.memory, fmt.Sprintf("entry %d lies beyond a queue's pages", counter)})
	}
	return r.memory.at(r.pages[page]+off&(1<<r.logPage-1), 1<<r.logEntry)
}

// turn returns the owner's bit of an entry: it changes with each round.
func (r *ring) turn(counter uint32) byte { return byte(counter>>r.logSize) & 1 }

type eventQueue struct {
	ring
	number   uint32
	vector   int
	mask     buffer
	produced uint32
	consumed uint32
	armed    bool
}

type completionQueue struct {
	ring
	number, eq uint32
	produced   uint32
	armed      bool
}

type sendQueue struct {
	ring
	number, cq uint32
	doorbell   uint64 // where the driver counts in memory
	consumed   uint32
	waiting    bool       // until the other side has room, or is there
	tries      int        // how often there was no other side
	pair       *queuePair // nil if it is a queue of an interface
}

// A queuePair is one of verbs.
type queuePair struct {
	kind       int
	index      uint32        // by which a program knows it
	receive    *receiveQueue // its own, or one that it shares
	receiveCQ  uint32
	permission permission
	ready      bool   // connected: in state RTR or RTS
	failed     bool   // in state error: what is posted is flushed
	remote     uint32 // the other pair's number, and whose it is
	mac        uint64
	lid        uint16
}

type receiveQueue struct {
	ring
	number, cq uint32
	permission permission
	doorbell   uint64
	consumed   uint32
	ready      bool

	shared bool
	next   uint32 // the entry that a shared queue is at
}

// linkSize is the size of the head of a shared queue's entry, which says what entry comes after it.
const linkSize = 16

// first returns the entry that a queue is at, and its number in a completion.
func (q *receiveQueue) first() (entry buffer, number uint32) {
	if q.shared {
		return q.entry(q.next)[linkSize:], q.next
	}
	return q.entry(q.consumed), q.consumed
}

// take has the queue be at its next entry.
func (q *receiveQueue) take() {
	if q.shared {
		q.next = uint32(binary.BigEndian.Uint16(q.entry(q.next)[2:]))
	}
	q.consumed++
}

func (f *firmware) createEQ(in, out buffer) int {
	c := in.part("create_eq_in.eq_context_entry")
	q := &eventQueue{number: f.number("eq", 1, 255), vector: int(c.get("eqc.intr")), mask: in.part("create_eq_in.event_bitmask")}
	q.ring = newRing(f.memory, in.part("create_eq_in.pas"), 12+int(c.get("eqc.log_page_size")), 6, int(c.get("eqc.log_eq_size")), 0)
	if q.number == 0 {
		return statusNoResources
	}
	f.eqs[q.number] = q
	out.set("create_eq_out.eq_number", uint64(q.number))
	return statusOK
}

// eqFor returns the event queue that wants events of that type, or nil.
func (f *firmware) eqFor(event int) *eventQueue {
	for _, q := range f.eqs {
		// four words of 64 bits
		word := binary.BigEndian.Uint64(q.mask[event/64*8:])
		if word>>(event%64)&1 != 0 {
			return q
		}
	}
	return nil
}

func (f *firmware) event(q *eventQueue, event, subtype byte, data []byte) {
	e := q.entry(q.produced)
	clear(e)
	e[1], e[3] = event, subtype
	copy(e[32:60], data)
	e[63] = q.turn(q.produced)
	q.produced++
	f.interrupt(q)
}

func (f *firmware) interrupt(q *eventQueue) {
	if q.armed && q.produced&0xffffff != q.consumed {
		q.armed = false
		f.raise(q.vector)
	}
}

func (f *firmware) createCQ(in, out buffer) int {
	c := in.part("create_cq_in.cq_context")
	q := &completionQueue{number: f.number("cq", 1, 1<<16), eq: uint32(c.get("cqc.c_eqn_or_apu_element"))}
	logEntry := 6
	if c.get("cqc.cqe_sz") != 0 {
		logEntry = 7
	}
	logPage := 12 + int(c.get("cqc.log_page_size"))
	q.ring = newRing(f.memory, in.part("create_cq_in.pas"), logPage, logEntry, int(c.get("cqc.log_cq_size")), offset(c.get("cqc.page_offset"), logPage))
	if q.number == 0 {
		return statusNoResources
	}
	f.cqs[q.number] = q
	out.set("create_cq_out.cqn", uint64(q.number))
	return statusOK
}

// complete puts an entry into a completion queue; fill sets what is not common.
func (f *firmware) complete(cq uint32, opcode byte, fill func(e buffer)) {
	q := f.cqs[cq]
	if q == nil {
		return
	}
	e := q.entry(q.produced)
	if len(e) == 128 {
		e = e[64:]
	}
	owner := opcode<<4 | q.turn(q.produced)
	clear(e[:60])
	fill(e)
	e[63] = owner
	q.produced++
	f.notify(q)
}

func (f *firmware) notify(q *completionQueue) {
	if !q.armed {
		return
	}
	q.armed = false
	if eq := f.eqs[q.eq]; eq != nil {
		data := make([]byte, 28)
		binary.BigEndian.PutUint32(data[24:], q.number)
		f.event(eq, eventCompletion, 0, data)
	}
}

func (f *firmware) createSQ(in, out buffer) int {
	c := in.part("create_sq_in.ctx")
	wq := c.part("sqc.wq")
	q := &sendQueue{number: f.number("qp", 64, 1<<16), cq: uint32(c.get("sqc.cqn")), doorbell: wq.get("wq.dbr_addr") + 4}
	logPage := 12 + int(wq.get("wq.log_wq_pg_sz"))
	q.ring = newRing(f.memory, wq.part("wq.pas"), logPage, 6, int(wq.get("wq.log_wq_sz"))+int(wq.get("wq.log_wq_stride"))-6, offset(wq.get("wq.page_offset"), logPage))
	if q.number == 0 {
		return statusNoResources
	}
	f.sqs[q.number] = q
	out.set("create_sq_out.sqn", uint64(q.number))
	return statusOK
}

func (f *firmware) createRQ(in, out buffer) int {
	c := in.part("create_rq_in.ctx")
	wq := c.part("rqc.wq")
	q := &receiveQueue{number: f.number("rq", 64, 1<<16), cq: uint32(c.get("rqc.cqn")), doorbell: wq.get("wq.dbr_addr"), permission: permission{domain: wq.get("wq.pd")}}
	logPage := 12 + int(wq.get("wq.log_wq_pg_sz"))
	q.ring = newRing(f.memory, wq.part("wq.pas"), logPage, int(wq.get("wq.log_wq_stride")), int(wq.get("wq.log_wq_sz")), offset(wq.get("wq.page_offset"), logPage))
	if q.number == 0 {
		return statusNoResources
	}
	f.rqs[q.number] = q
	out.set("create_rq_out.rqn", uint64(q.number))
	return statusOK
}

// createRMP makes a shared receive queue: its entries are a list, which a program makes longer.
func (f *firmware) createRMP(in, out buffer) int {
	wq := in.part("create_rmp_in.ctx").part("rmpc.wq")
	q := &receiveQueue{number: f.number("srq", 1, 1<<16), doorbell: wq.get("wq.dbr_addr"), permission: permission{domain: wq.get("wq.pd")}, ready: true, shared: true}
	logPage, logStride := 12+int(wq.get("wq.log_wq_pg_sz")), int(wq.get("wq.log_wq_stride"))
	if q.number == 0 {
		return statusNoResources
	}
	if 1<<logStride <= linkSize {
		return statusBadParam
	}
	q.ring = newRing(f.memory, wq.part("wq.pas"), logPage, logStride, int(wq.get("wq.log_wq_sz")), offset(wq.get("wq.page_offset"), logPage))
	f.srqs[q.number] = q
	out.set("create_rmp_out.rmpn", uint64(q.number))
	return statusOK
}

// createQP makes a pair of queues: the send queue comes after the receive queue in the same pages.
func (f *firmware) createQP(in, out buffer) int {
	c, pages := in.part("create_qp_in.qpc"), in.part("create_qp_in.pas")
	logPage := 12 + int(c.get("qpc.log_page_size"))
	begin := offset(c.get("qpc.page_offset"), logPage)
	q := &sendQueue{number: f.number("qp", 64, 1<<16), cq: uint32(c.get("qpc.cqn_snd")), doorbell: c.get("qpc.dbr_addr") + 4}
	q.pair = &queuePair{kind: int(c.get("qpc.st")), index: uint32(c.get("qpc.user_index")), receiveCQ: uint32(c.get("qpc.cqn_rcv")),
		permission: permission{domain: c.get("qpc.pd"), reserved: c.get("qpc.rlky") != 0}}
	const ofItsOwn, shared = 0, 1
	switch c.get("qpc.rq_type") {
	case ofItsOwn:
		logStride, logSize := int(c.get("qpc.log_rq_stride"))+4, int(c.get("qpc.log_rq_size"))
		q.pair.receive = &receiveQueue{ring: newRing(f.memory, pages, logPage, logStride, logSize, begin), number: q.number,
			permission: q.pair.permission, doorbell: c.get("qpc.dbr_addr"), ready: true}
		begin += 1 << (logStride + logSize)
	case shared:
		if q.pair.receive = f.srqs[uint32(c.get("qpc.srqn_rmpn_xrqn"))]; q.pair.receive == nil {
			return statusBadParam
		}
	default:
		q.pair.receive = &receiveQueue{}
	}
	q.ring = newRing(f.memory, pages, logPage, 6, int(c.get("qpc.log_sq_size")), begin)
	if q.number == 0 {
		return statusNoResources
	}
	if c.get("qpc.no_sq") == 0 {
		f.sqs[q.number] = q
	}
	out.set("create_qp_out.qpn", uint64(q.number))
	return statusOK
}

// doorbell does what a write to a UAR asks.
func (f *firmware) doorbell(off uint64, data []byte) {
	be := binary.BigEndian
	switch {
	case off == 0x20 && len(data) == 8: // a completion queue is armed
		if q := f.cqs[be.Uint32(data[4:])&0xffffff]; q != nil {
			q.armed = true
			if be.Uint32(data)&0xffffff != q.produced&0xffffff {
				f.notify(q)
			}
		}
	case off == 0x40 || off == 0x48: // events are consumed; the former also arms
		word := be.Uint32(data)
		if q := f.eqs[word>>24]; q != nil {
			q.consumed = word & 0xffffff
			q.armed = q.armed || off == 0x40
			f.interrupt(q)
		}
	case off >= 0x800 && off&0xff == 0 && len(data) == 8: // the begin of a send queue's last entry
		if q := f.sqs[be.Uint32(data[4:])>>8]; q != nil {
			f.send(q)
		}
	case off >= 0x800: // the rest of that entry, which is in memory, too
	default:
		f.unknown("doorbell at %#x of %d bytes", off, len(data))
	}
}

// send does what is new in a send queue.
func (f *firmware) send(q *sendQueue) {
	const wantsCompletion, mostTries = 8, 1000
	be := binary.BigEndian
	limit := be.Uint32(f.memory.at(q.doorbell, 4)) & 0xffff
	for n := 0; q.consumed&0xffff != limit && n < 1<<16 && f.sqs[q.number] == q; n++ {
		head := q.entry(q.consumed)
		opcode, units := head[3], int(be.Uint32(head[4:])&0x3f)
		blocks := max(1, (units*16+63)/64)
		switch {
		case q.pair != nil && q.pair.failed:
			f.failed(q, q.cq, requestError, q.consumed, flushed)
			q.consumed += uint32(blocks)
			continue
		case q.pair != nil && opcode != 0:
			if q.pair.kind == pairQP1 && f.infiniband {
				f.ask(q, units)
			}
			bad := fine
			f.contain(func() { bad = f.perform(q, opcode, units) })
			if bad == lost {
				q.tries++
			}
			switch {
			case bad == noRoom || bad == lost && q.tries <= mostTries:
				f.again(q)
				return
			case bad != fine:
				f.failed(q, q.cq, requestError, q.consumed, bad)
				f.flushReceives(q)
				q.consumed += uint32(blocks)
				if to := f.other(q.pair.mac, q.pair.lid); to != nil && (bad == remoteAccess || bad == remoteOperation) {
					to.refuse(to.sqs[q.pair.remote])
				}
				continue
			}
			q.tries = 0
		case f.infiniband: // of IPoIB
		case opcode == opcodeSend || opcode == opcodeLSO:
			f.transmit(q, units)
		}
		if head[11]&0xc == wantsCompletion {
			counter := uint16(q.consumed)
			f.complete(q.cq, 0, func(e buffer) {
				if q.pair != nil {
					be.PutUint32(e[32:], q.pair.index)
				}
				be.PutUint32(e[56:], uint32(opcode)<<24|q.number)
				be.PutUint16(e[60:], counter)
			})
		}
		q.consumed += uint32(blocks)
	}
}
