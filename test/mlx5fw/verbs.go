package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Verbs: what queue pairs send comes to those of the other HCAs, by RC and UD. Shared receive
// queues and DC are not here.

const (
	logMaxKeys = 20
	maxKeys    = 1 << logMaxKeys

	pairRC, pairUC, pairUD = 0, 1, 2

	opcodeWrite, opcodeWriteImmediate = 0x08, 0x09
	opcodeSendImmediate               = 0x0b
	opcodeRead                        = 0x10
	opcodeSwap, opcodeAdd             = 0x11, 0x12

	requestError, responseError = 13, 14 // opcodes of completions

	respWriteImmediate, respSend, respSendImmediate = 1, 2, 3 // opcodes of a responder's completion
)

// A memoryKey says which of the guest's pages a program's address means.
type memoryKey struct {
	direct  bool // all memory, at the guest's own addresses
	start   uint64
	logPage int
	pages   []uint64
}

func (f *firmware) createKey(in, out buffer) int {
	c := in.part("create_mkey_in.memory_key_mkey_entry")
	n := f.number("mkey", 0x100, maxKeys)
	if n == 0 {
		return statusNoResources
	}
	k := &memoryKey{direct: c.get("mkc.access_mode_1_0") == 0, start: c.get("mkc.start_addr"), logPage: int(c.get("mkc.log_page_size"))}
	if in.get("create_mkey_in.translations_octword_actual_size") != 0 {
		pages := in.part("create_mkey_in.klm_pas_mtt")
		for i := 0; i+8 <= len(pages); i += 8 {
			k.pages = append(k.pages, binary.BigEndian.Uint64(pages[i:])&^7)
		}
	}
	f.keys[n] = k
	out.setWord(2, n)
	return statusOK
}

// reach returns the guest's memory at an address under a key, in pieces.
func (f *firmware) reach(key uint32, address uint64, n int) (pieces []buffer) {
	k := f.keys[key>>8]
	if k == nil || k.direct || k.logPage == 0 {
		return []buffer{f.memory.at(address, n)}
	}
	if k.logPage < 12 || k.logPage > 40 {
		panic(fault{f.memory, fmt.Sprintf("a memory key with pages of 2^%d bytes", k.logPage)})
	}
	first := k.start &^ (1<<k.logPage - 1)
	for n > 0 {
		off := address - first
		page, within := off>>k.logPage, off&(1<<k.logPage-1)
		size := min(n, 1<<k.logPage-int(within))
		if page >= uint64(len(k.pages)) {
			return nil
		}
		pieces = append(pieces, f.memory.at(k.pages[page]+within, size))
		address, n = address+uint64(size), n-size
	}
	return pieces
}

func (f *firmware) load(key uint32, address uint64, n int) []byte {
	return slices.Concat(f.reach(key, address, n)...)
}

func (f *firmware) store(key uint32, address uint64, data []byte) {
	for _, piece := range f.reach(key, address, len(data)) {
		data = data[copy(piece, data):]
	}
}

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
	case opToReset:
		q.pair.failed = false
		q.consumed, q.pair.receive.consumed = 0, 0
	case opToError:
		f.flush(q)
	}
}

// flush ends with an error what a pair's queues hold. Programs that have ended a connection wait for it.
func (f *firmware) flush(q *sendQueue) {
	q.pair.failed = true
	if r := &q.pair.receive; len(r.pages) > 0 {
		for n := 0; n < 1<<16 && f.hasRoom(r); n++ {
			f.flushed(q, r.cq, responseError, r.consumed)
			r.consumed++
		}
	}
	if len(q.pages) > 0 {
		f.send(q)
	}
}

// flushed completes an entry of a pair's in state error.
func (f *firmware) flushed(q *sendQueue, cq uint32, opcode byte, counter uint32) {
	const isFlushed = 5
	f.complete(cq, opcode, func(e buffer) {
		binary.BigEndian.PutUint32(e[32:], q.pair.index)
		e[55] = isFlushed
		binary.BigEndian.PutUint32(e[56:], q.number)
		binary.BigEndian.PutUint16(e[60:], uint16(counter))
	})
}

// other returns the HCA that has a MAC or a LID, or nil.
func (f *firmware) other(mac uint64, lid uint16) *firmware {
	for _, o := range f.wire() {
		if o.infiniband == f.infiniband && o.carrier && (f.infiniband && o.lid() == lid || !f.infiniband && o.currentMAC() == mac) {
			return o
		}
	}
	return nil
}

func (f *firmware) currentMAC() uint64 {
	return f.vport.get("nic_vport_context.permanent_address.mac_addr_47_32")<<32 | f.vport.get("nic_vport_context.permanent_address.mac_addr_31_0")
}

// perform does what an entry of a pair's send queue says. It is false if the other side has no
// room yet; then it is tried again.
func (f *firmware) perform(q *sendQueue, opcode byte, units int) bool {
	be := binary.BigEndian
	entry, p := q.whole(units), q.pair
	immediate := be.Uint32(entry[12:])
	at := 16
	if p.kind == pairUD || p.kind == pairQP1 {
		if len(entry) < 64 {
			return true
		}
		f.sendDatagram(q, entry[16:64], f.gather(entry[64:]), opcode, immediate)
		return true
	}
	if p.kind != pairRC && p.kind != pairUC {
		return true
	}
	to := f.other(p.mac, p.lid)
	if to == nil || to.sqs[p.remote] == nil || to.sqs[p.remote].pair == nil {
		return true
	}
	target := to.sqs[p.remote]
	if target.pair.failed {
		return true // lost
	}
	var remote uint64
	var key uint32
	if opcode == opcodeWrite || opcode == opcodeWriteImmediate || opcode == opcodeRead || opcode == opcodeSwap || opcode == opcodeAdd {
		if len(entry) < 32 {
			return true
		}
		remote, key, at = be.Uint64(entry[16:]), be.Uint32(entry[24:]), 32
	}
	switch opcode {
	case opcodeWrite:
		to.store(key, remote, f.gather(entry[at:]))
	case opcodeRead:
		for ; at+16 <= len(entry); at += 16 {
			n := int(be.Uint32(entry[at:]))
			if n > 1<<logMaxMessage {
				panic(fault{text: fmt.Sprintf("a message of %d bytes", n)})
			}
			f.store(be.Uint32(entry[at+4:]), be.Uint64(entry[at+8:]), to.load(key, remote, n))
			remote += uint64(n)
		}
	case opcodeSwap, opcodeAdd: // two numbers, and where the old value goes
		if len(entry) < 64 {
			return true
		}
		old := to.load(key, remote, 8)
		f.store(be.Uint32(entry[52:]), be.Uint64(entry[56:]), swapped(old))
		first, compare, value := be.Uint64(entry[32:]), be.Uint64(entry[40:]), binary.LittleEndian.Uint64(old)
		if opcode == opcodeAdd {
			to.store(key, remote, binary.LittleEndian.AppendUint64(nil, value+first))
		} else if value == compare {
			to.store(key, remote, binary.LittleEndian.AppendUint64(nil, first))
		}
	case opcodeWriteImmediate, opcodeSend, opcodeSendImmediate:
		r := &target.pair.receive
		if !to.hasRoom(r) {
			return false
		}
		data, counter := f.gather(entry[at:]), uint16(r.consumed)
		kind := map[byte]byte{opcodeWriteImmediate: respWriteImmediate, opcodeSend: respSend, opcodeSendImmediate: respSendImmediate}[opcode]
		if opcode == opcodeWriteImmediate {
			to.store(key, remote, data)
			r.consumed++
		} else {
			to.scatter(r, data)
		}
		to.complete(r.cq, kind, func(e buffer) {
			be.PutUint32(e[24:], q.number)
			be.PutUint32(e[32:], target.pair.index)
			be.PutUint32(e[36:], immediate)
			be.PutUint32(e[44:], uint32(len(data)))
			be.PutUint32(e[56:], target.number)
			be.PutUint16(e[60:], counter)
		})
	}
	return true
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
	if target == nil || target.pair == nil || !to.hasRoom(&target.pair.receive) {
		return // lost, as datagrams are
	}
	header, kind, grh := make([]byte, 40), uint32(0), uint32(0)
	if !f.infiniband {
		header, kind = f.header(int(be.Uint32(av[28:])>>20&0xff), av[32:48], len(data))
		grh = 1
	}
	r := &target.pair.receive
	counter := uint16(r.consumed)
	to.scatter(r, append(header, data...))
	resp := byte(respSend)
	if opcode == opcodeSendImmediate {
		resp = respSendImmediate
	}
	from := q.number
	if q.pair.kind == pairQP1 {
		from = 1
	}
	to.complete(r.cq, resp, func(e buffer) {
		be.PutUint16(e[22:], f.lid())
		be.PutUint32(e[24:], grh<<28|kind<<24|from)
		be.PutUint32(e[32:], target.pair.index)
		be.PutUint32(e[36:], immediate)
		if target.pair.kind == pairQP1 {
			be.PutUint32(e[36:], 0xffff) // the partition
		}
		be.PutUint32(e[44:], uint32(len(header)+len(data)))
		be.PutUint32(e[56:], target.number)
		be.PutUint16(e[60:], counter)
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
