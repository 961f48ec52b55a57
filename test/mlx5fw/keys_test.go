package main

import (
	"encoding/binary"
	"testing"
)

// aPair makes a queue pair of a protection domain, whose completions lie in a page. Its send queue lies in the next, its
// doorbells behind that.
func aPair(t *testing.T, f *firmware, page, domain uint64) *sendQueue {
	t.Helper()
	in, out := make(buffer, 0x200), make(buffer, 16)
	in.part("create_cq_in.cq_context").set("cqc.log_cq_size", 3)
	binary.BigEndian.PutUint64(in.part("create_cq_in.pas"), page)
	f.createCQ(in, out)
	cq := out.get("create_cq_out.cqn")
	in, out = make(buffer, 0x200), make(buffer, 16)
	c := in.part("create_qp_in.qpc")
	for name, v := range (values{"qpc.log_rq_size": 2, "qpc.log_sq_size": 3, "qpc.cqn_rcv": cq, "qpc.cqn_snd": cq, "qpc.dbr_addr": page + 0x2000, "qpc.pd": domain}) {
		c.set(name, v)
	}
	binary.BigEndian.PutUint64(in.part("create_qp_in.pas"), page+0x1000)
	f.createQP(in, out)
	return f.sqs[uint32(out.get("create_qp_out.qpn"))]
}

// connect has a pair send to another one.
func connect(f *firmware, q *sendQueue, to *firmware, other uint32) {
	in := make(buffer, 0x200)
	in.set("init2rtr_qp_in.qpn", uint64(q.number))
	c := in.part("init2rtr_qp_in.qpc")
	c.set("qpc.remote_qpn", uint64(other))
	c.set("qpc.primary_address_path.rmac_47_32", to.currentMAC()>>32)
	c.set("qpc.primary_address_path.rmac_31_0", to.currentMAC()&0xffffffff)
	f.modifyQP(opInit2RTR, in)
}

// aKey makes a memory key of a page and returns it.
func aKey(f *firmware, page, domain uint64, low byte, allowed ...string) uint32 {
	in, out := make(buffer, 0x200), make(buffer, 16)
	c := in.part("create_mkey_in.memory_key_mkey_entry")
	for name, v := range (values{"mkc.access_mode_1_0": 1, "mkc.mkey_7_0": uint64(low), "mkc.pd": domain, "mkc.start_addr": page, "mkc.len": 0x800, "mkc.log_page_size": 12}) {
		c.set(name, v)
	}
	for _, name := range allowed {
		c.set(name, 1)
	}
	in.set("create_mkey_in.translations_octword_actual_size", 1)
	binary.BigEndian.PutUint64(in.part("create_mkey_in.klm_pas_mtt"), page)
	f.createKey(in, out)
	return out.word(2)<<8 | uint32(low)
}

// TestAQueuePairReachesOnlyMemoryThatItsPeersKeyAllows writes from one HCA to another.
func TestAQueuePairReachesOnlyMemoryThatItsPeersKeyAllows(t *testing.T) {
	const ours, theirs, elsewhere, memory = 7, 8, 9, 0x18000
	be := binary.BigEndian
	for _, c := range []struct {
		name    string
		want    syndrome
		address uint64
		key     func(right, other, readOnly, gone uint32) uint32
		peer    func(*firmware, *sendQueue) // what becomes of the peer first
	}{
		{name: "its key", want: fine, key: func(right, _, _, _ uint32) uint32 { return right }},
		{name: "an index with another low byte", want: remoteAccess, key: func(right, _, _, _ uint32) uint32 { return right ^ 1 }},
		{name: "another index", want: remoteAccess, key: func(right, _, _, _ uint32) uint32 { return right + 0x1000 }},
		{name: "a key of another protection domain", want: remoteAccess, key: func(_, other, _, _ uint32) uint32 { return other }},
		{name: "a key for reading", want: remoteAccess, key: func(_, _, readOnly, _ uint32) uint32 { return readOnly }},
		{name: "a key that has been destroyed", want: remoteAccess, key: func(_, _, _, gone uint32) uint32 { return gone }},
		{name: "the key of all memory", want: remoteAccess, key: func(_, _, _, _ uint32) uint32 { return reservedKey }},
		{name: "beyond the memory", want: remoteAccess, address: 0x7fd, key: func(right, _, _, _ uint32) uint32 { return right }},
		{name: "a peer that is connected with another pair", want: lost, key: func(right, _, _, _ uint32) uint32 { return right },
			peer: func(_ *firmware, q *sendQueue) { q.pair.remote++ }},
		{name: "a peer that is gone", want: lost, key: func(right, _, _, _ uint32) uint32 { return right },
			peer: func(f *firmware, q *sendQueue) { delete(f.sqs, q.number) }},
	} {
		a, b := two(t, false)
		a.up, a.carrier, b.up, b.carrier = true, true, true, true
		from, to := aPair(t, a, 0x10000, ours), aPair(t, b, 0x10000, theirs)
		connect(a, from, b, to.number)
		connect(b, to, a, from.number)
		if c.peer != nil {
			c.peer(b, to)
		}
		copy(a.memory.at(memory, 4), "word")
		local := aKey(a, memory, ours, 1, "mkc.lr")
		right, other := aKey(b, memory, theirs, 2, "mkc.lw", "mkc.rw"), aKey(b, memory, elsewhere, 3, "mkc.lw", "mkc.rw")
		readOnly, gone := aKey(b, memory, theirs, 4, "mkc.lr", "mkc.rr"), aKey(b, memory, theirs, 5, "mkc.lw", "mkc.rw")
		delete(b.keys, gone>>8)
		entry := from.entry(0)
		be.PutUint32(entry, opcodeWrite)
		be.PutUint32(entry[4:], from.number<<8|3)
		entry[11] = 8
		be.PutUint64(entry[16:], memory+c.address)
		be.PutUint32(entry[24:], c.key(right, other, readOnly, gone))
		be.PutUint32(entry[32:], 4)
		be.PutUint32(entry[36:], local)
		be.PutUint64(entry[40:], memory)
		be.PutUint32(a.memory.at(from.doorbell, 4), 1)
		for range 1002 { // more often than it is tried
			a.alone(func() { a.send(from); from.waiting = false })
		}
		e := a.memory.at(0x10000, 64)
		if c.want == fine && (e[63]>>4 != 0 || string(b.memory.at(memory, 4)) != "word") {
			t.Errorf("%s: completion %x, there is %q", c.name, e, b.memory.at(memory, 4))
		}
		if c.want != fine && (e[63]>>4 != requestError || syndrome(e[55]) != c.want || b.memory.at(memory, 4)[0] != 0) {
			t.Errorf("%s: completion %x, there is %q", c.name, e, b.memory.at(memory, 4))
		}
		if refused := c.want == remoteAccess; to.pair.failed != refused || from.pair.failed != (c.want != fine) {
			t.Errorf("%s: the pairs are in error: %v and %v", c.name, from.pair.failed, to.pair.failed)
		}
	}
}

// TestAQueuePairSendsOnlyFromMemoryOfItsProtectionDomain: the kernel's reserved key is not a program's.
func TestAQueuePairSendsOnlyFromMemoryOfItsProtectionDomain(t *testing.T) {
	f, _ := two(t, false)
	own, other := aKey(f, 0x18000, 7, 1, "mkc.lr"), aKey(f, 0x18000, 8, 2, "mkc.lr")
	of := func(key uint32) buffer {
		segment := make(buffer, 16)
		binary.BigEndian.PutUint32(segment, 4)
		binary.BigEndian.PutUint32(segment[4:], key)
		binary.BigEndian.PutUint64(segment[8:], 0x18000)
		return segment
	}
	for key, want := range map[uint32]syndrome{own: fine, other: localProtection, reservedKey: localProtection, 0: localProtection} {
		if _, bad := f.gather(permission{domain: 7}, of(key)); bad != want {
			t.Errorf("key %#x: %#x", key, bad)
		}
	}
	if _, bad := f.gather(permission{domain: 7, reserved: true}, of(reservedKey)); bad != fine {
		t.Error("the kernel's queue pairs have no reserved key")
	}
}
