package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Verbs: what queue pairs send comes to those of the other HCAs, by RC and UD. DC is not here.

const (
	pairRC, pairUC, pairUD = 0, 1, 2

	opcodeWrite, opcodeWriteImmediate = 0x08, 0x09
	opcodeSendImmediate               = 0x0b
	opcodeRead                        = 0x10
	opcodeSwap, opcodeAdd             = 0x11, 0x12

	requestError, responseError = 13, 14 // opcodes of completions

	respWriteImmediate, respSend, respSendImmediate = 1, 2, 3 // opcodes of a responder's completion
)

// modifyQP keeps where a connected pair sends to, and resets a pair.
func (f *firmware) modifyQP(opcode int, in buffer) {
	q := f.sqs[uint32(in.get("init2rtr_qp_in.qpn"))]
	if q == nil || q.pair == nil {
		return
	}
	c := in.part("init2rtr_qp_in.qpc")
	switch opcode {
	case opInit2RTR:
		q.pair.remote = uint32(c.get("qpc.remote_qpn"))
		q.pair.mac = c.get("qpc.primary_address_path.rmac_47_32")<<32 | c.get("qpc.primary_address_path.rmac_31_0")
		q.pair.lid = uint16(c.get("qpc.primary_address_path.rlid"))
		q.pair.ready = true
	case opToReset:
		q.pair.ready, q.pair.failed = false, false
		q.consumed = 0
		if !q.pair.receive.shared {
			q.pair.receive.consumed = 0
		}
	case opToError:
		f.flush(q)
	}
}

// flush ends with an error what a pair's queues hold. Programs that have ended a connection wait for it.
func (f *firmware) flush(q *sendQueue) {
	f.flushReceives(q)
	if len(q.pages) > 0 {
		f.send(q)
	}
}

func (f *firmware) flushReceives(q *sendQueue) {
	q.pair.failed = true
	if r := q.pair.receive; len(r.pages) > 0 && !r.shared {
		for n := 0; n < 1<<16 && f.hasRoom(r); n++ {
			f.failed(q, q.pair.receiveCQ, responseError, r.consumed, flushed)
			r.consumed++
		}
	}
}

// failed completes an entry of a pair's with an error.
func (f *firmware) failed(q *sendQueue, cq uint32, opcode byte, counter uint32, why syndrome) {
	f.complete(cq, opcode, func(e buffer) {
		binary.BigEndian.PutUint32(e[32:], q.pair.index)
		e[55] = byte(why)
		binary.BigEndian.PutUint32(e[56:], q.number)
		binary.BigEndian.PutUint16(e[60:], uint16(counter))
	})
}

// refuse has a pair fail whose peer asked for what it may not have. Its driver gets an event of the pair.
func (f *firmware) refuse(q *sendQueue) {
	f.flush(q)
	if eq := f.eqFor(eventAccess); eq != nil {
		data := make([]byte, 28)
		binary.BigEndian.PutUint32(data[24:], q.number)
		f.event(eq, eventAccess, 0, data)
	}
}

// other returns the HCA that has a MAC or a LID, or nil.
func (f *firmware) other(mac uint64, lid uint16) *firmware {
	for _, o := range f.wire() {
		if o.infiniband == f.infiniband && o.carrier && o.is(mac, lid) {
			return o
		}
	}
	return nil
}

func (f *firmware) is(mac uint64, lid uint16) bool {
	return f.infiniband && f.lid() == lid || !f.infiniband && f.currentMAC() == mac
}

func (f *firmware) currentMAC() uint64 {
	return f.vport.get("nic_vport_context.permanent_address.mac_addr_47_32")<<32 | f.vport.get("nic_vport_context.permanent_address.mac_addr_31_0")
}

// perform does what an entry of a pair's send queue says. It is noRoom if the other side has none yet, and lost if
// there is no other side; then it is tried again.
func (f *firmware) perform(q *sendQueue, opcode byte, units int) syndrome {
	be := binary.BigEndian
	entry, p := q.whole(units), q.pair
	immediate := be.Uint32(entry[12:])
	at := 16
	if p.kind == pairUD || p.kind == pairQP1 {
		if len(entry) < 64 {
			return fine
		}
		data, bad := f.gather(p.permission, entry[64:])
		if bad == fine {
			f.sendDatagram(q, entry[16:64], data, opcode, immediate)
		}
		return bad
	}
	if p.kind != pairRC && p.kind != pairUC {
		return fine
	}
	to := f.other(p.mac, p.lid)
	if to == nil || to.sqs[p.remote] == nil || !to.sqs[p.remote].pair.hears(f, q) {
		if p.kind == pairUC {
			return fine
		}
		return lost
	}
	target := to.sqs[p.remote]
	var remote uint64
	var key uint32
	if opcode == opcodeWrite || opcode == opcodeWriteImmediate || opcode == opcodeRead || opcode == opcodeSwap || opcode == opcodeAdd {
		if len(entry) < 32 {
			return fine
		}
		remote, key, at = be.Uint64(entry[16:]), be.Uint32(entry[24:]), 32
	}
	switch opcode {
	case opcodeWrite:
		data, bad := f.gather(p.permission, entry[at:])
		if bad == fine {
			bad = to.store(target.pair.asks(remoteWrite), key, remote, data)
		}
		return bad
	case opcodeRead:
		for ; at+16 <= len(entry); at += 16 {
			n := int(be.Uint32(entry[at:]))
			if n > 1<<logMaxMessage {
				panic(fault{text: fmt.Sprintf("a message of %d bytes", n)})
			}
			data, bad := to.load(target.pair.asks(remoteRead), key, remote, n)
			if bad == fine {
				bad = f.store(p.asks(localWrite), be.Uint32(entry[at+4:]), be.Uint64(entry[at+8:]), data)
			}
			if bad != fine {
				return bad
			}
			remote += uint64(n)
		}
	case opcodeSwap, opcodeAdd: // two numbers, and where the old value goes
		if len(entry) < 64 {
			return fine
		}
		old, bad := to.load(target.pair.asks(remoteAtomic), key, remote, 8)
		if bad == fine {
			bad = f.store(p.asks(localWrite), be.Uint32(entry[52:]), be.Uint64(entry[56:]), swapped(old))
		}
		if bad != fine {
			return bad
		}
		first, compare, value := be.Uint64(entry[32:]), be.Uint64(entry[40:]), binary.LittleEndian.Uint64(old)
		if opcode == opcodeAdd {
			to.store(target.pair.asks(remoteAtomic), key, remote, binary.LittleEndian.AppendUint64(nil, value+first))
		} else if value == compare {
			to.store(target.pair.asks(remoteAtomic), key, remote, binary.LittleEndian.AppendUint64(nil, first))
		}
	case opcodeWriteImmediate, opcodeSend, opcodeSendImmediate:
		r := target.pair.receive
		if !to.hasRoom(r) {
			return noRoom
		}
		data, bad := f.gather(p.permission, entry[at:])
		if bad != fine {
			return bad
		}
		_, counter := r.first()
		kind := map[byte]byte{opcodeWriteImmediate: respWriteImmediate, opcodeSend: respSend, opcodeSendImmediate: respSendImmediate}[opcode]
		if opcode == opcodeWriteImmediate {
			if bad := to.store(target.pair.asks(remoteWrite), key, remote, data); bad != fine {
				return bad
			}
			r.take()
		} else if bad := to.scatter(r, data); bad != fine {
			to.failed(target, target.pair.receiveCQ, responseError, counter, bad)
			return remoteOperation
		}
		to.complete(target.pair.receiveCQ, kind, func(e buffer) {
			be.PutUint32(e[24:], q.number)
			be.PutUint32(e[32:], target.pair.index)
			be.PutUint32(e[36:], immediate)
			be.PutUint32(e[44:], uint32(len(data)))
			be.PutUint32(e[56:], target.number)
			be.PutUint16(e[60:], uint16(counter))
		})
	}
	return fine
}

// hears tells whether a pair is connected with one of an HCA's, and neither reset nor in error.
func (p *queuePair) hears(f *firmware, from *sendQueue) bool {
	return p != nil && p.ready && !p.failed && p.kind == from.pair.kind && p.remote == from.number && f.is(p.mac, p.lid)
}

// swapped returns data in the order of bytes that the driver takes an atomic's result to be in.
func swapped(data []byte) []byte {
	data = slices.Clone(data)
	slices.Reverse(data)
	return data
}

// sendDatagram sends by UD: to whom is in the entry, and where the packet is from, in the
// table of source addresses.
func (f *firmware) sendDatagram(q *sendQueue, av buffer, data []byte, opcode byte, immediate uint32) {
	be := binary.BigEndian
	number := be.Uint32(av[8:]) & 0xffffff
	mac := uint64(be.Uint16(av[20:]))<<32 | uint64(be.Uint32(av[22:]))
	to := f.other(mac, be.Uint16(av[14:]))
	if to == nil {
		return
	}
	target := to.sqs[number]
	if number == 1 {
		target = nil
		for _, each := range to.sqs {
			if each.pair != nil && each.pair.kind == pairQP1 {
				target = each
			}
		}
	}
	if target == nil || target.pair == nil || !to.hasRoom(target.pair.receive) {
		return // lost, as datagrams are
	}
	header, kind, grh := make([]byte, 40), uint32(0), uint32(0)
	if !f.infiniband {
		header, kind = f.header(int(be.Uint32(av[28:])>>20&0xff), av[32:48], len(data))
		grh = 1
	}
	r := target.pair.receive
	_, counter := r.first()
	if to.scatter(r, append(header, data...)) != fine {
		return // lost, too
	}
	resp := byte(respSend)
	if opcode == opcodeSendImmediate {
		resp = respSendImmediate
	}
	from := q.number
	if q.pair.kind == pairQP1 {
		from = 1
	}
	to.complete(target.pair.receiveCQ, resp, func(e buffer) {
		be.PutUint16(e[22:], f.lid())
		be.PutUint32(e[24:], grh<<28|kind<<24|from)
		be.PutUint32(e[32:], target.pair.index)
		be.PutUint32(e[36:], immediate)
		if target.pair.kind == pairQP1 {
			be.PutUint32(e[36:], 0xffff) // the partition
		}
		be.PutUint32(e[44:], uint32(len(header)+len(data)))
		be.PutUint32(e[56:], target.number)
		be.PutUint16(e[60:], uint16(counter))
	})
}

// header returns that of IP or of InfiniBand in front of a datagram, and which it is.
func (f *firmware) header(index int, to buffer, size int) (header []byte, kind uint32) {
	be := binary.BigEndian
	const isIPv6, isIPv4 = 1, 2
	header = make([]byte, 40)
	source := f.addresses[index]
	if source == nil {
		source = make(buffer, 32)
	}
	version := source.get("roce_addr_layout.roce_version")
	if version == 2 && source.get("roce_addr_layout.roce_l3_type") == 0 {
		ip := header[20:]
		ip[0], ip[8], ip[9] = 0x45, 64, 17
		be.PutUint16(ip[2:], uint16(20+8+12+8+size+4))
		copy(ip[12:16], source[12:16])
		copy(ip[16:20], to[12:16])
		be.PutUint16(ip[10:], ^checksum(0, ip))
		return header, isIPv4
	}
	header[0], header[6], header[7] = 0x60, 0x1b, 64
	be.PutUint16(header[4:], uint16(12+8+size+4))
	copy(header[8:24], source[:16])
	copy(header[24:40], to[:16])
	if version == 2 {
		header[6] = 17
		return header, isIPv6
	}
	return header, 0
}

// again tries a send queue once more in a while.
func (f *firmware) again(q *sendQueue) {
	if q.waiting {
		return
	}
	q.waiting = true
	f.later(time.Millisecond, func() {
		q.waiting = false
		if f.sqs[q.number] == q {
			f.send(q)
		}
	})
}
