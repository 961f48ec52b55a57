package main

import (
	"encoding/binary"
	"testing"
)

// TestAQueueBeginsAtItsPartOfALargePage has queues in a page of 8 KiB, as the driver makes of pages that lie side by
// side: which do is chance.
func TestAQueueBeginsAtItsPartOfALargePage(t *testing.T) {
	f, _ := two(t, false)
	const page, half = 0x12000, 32 // 64ths
	in, out := make(buffer, 0x200), make(buffer, 16)
	c := in.part("create_cq_in.cq_context")
	c.set("cqc.log_page_size", 1)
	c.set("cqc.page_offset", half)
	c.set("cqc.log_cq_size", 2)
	binary.BigEndian.PutUint64(in.part("create_cq_in.pas"), page)
	if status := f.createCQ(in, out); status != statusOK {
		t.Fatal(status)
	}
	f.complete(uint32(out.get("create_cq_out.cqn")), 2, func(e buffer) { e[0] = 7 })
	if e := f.memory.at(page+0x1000, 64); e[0] != 7 {
		t.Error("the completion is elsewhere")
	}

	in, out = make(buffer, 0x200), make(buffer, 16)
	c = in.part("create_qp_in.qpc")
	for name, v := range (values{"qpc.log_page_size": 1, "qpc.page_offset": half, "qpc.log_rq_size": 2, "qpc.log_sq_size": 2}) {
		c.set(name, v)
	}
	binary.BigEndian.PutUint64(in.part("create_qp_in.pas"), page)
	if status := f.createQP(in, out); status != statusOK {
		t.Fatal(status)
	}
	q := f.sqs[uint32(out.get("create_qp_out.qpn"))]
	copy(f.memory.at(page+0x1000, 16), "receive")
	copy(f.memory.at(page+0x1000+4*16, 16), "send")
	if string(q.pair.receive.entry(0)[:7]) != "receive" || string(q.entry(0)[:4]) != "send" {
		t.Errorf("the queues are elsewhere: %q, %q", q.pair.receive.entry(0), q.entry(0)[:16])
	}
}

// TestWhatAPairHoldsIsFlushedOnceItIsInError: a program that has ended a connection waits for its receives to end.
func TestWhatAPairHoldsIsFlushedOnceItIsInError(t *testing.T) {
	f, _ := two(t, false)
	be := binary.BigEndian
	in, out := make(buffer, 0x200), make(buffer, 16)
	in.part("create_cq_in.cq_context").set("cqc.log_cq_size", 3)
	be.PutUint64(in.part("create_cq_in.pas"), 0x12000)
	f.createCQ(in, out)
	cq := out.get("create_cq_out.cqn")
	in, out = make(buffer, 0x200), make(buffer, 16)
	c := in.part("create_qp_in.qpc")
	for name, v := range (values{"qpc.log_rq_size": 2, "qpc.log_sq_size": 2, "qpc.cqn_rcv": cq, "qpc.cqn_snd": cq, "qpc.dbr_addr": 0x10000, "qpc.user_index": 9}) {
		c.set(name, v)
	}
	be.PutUint64(in.part("create_qp_in.pas"), 0x13000)
	f.createQP(in, out)
	number := out.get("create_qp_out.qpn")
	be.PutUint32(f.memory.at(0x10000, 4), 2) // two receives are posted
	in = make(buffer, 0x200)
	in.set("init2rtr_qp_in.qpn", number)
	f.modifyQP(opToError, in)
	be.PutUint32(f.memory.at(0x10004, 4), 1) // and a send, too late
	f.send(f.sqs[uint32(number)])
	for i, opcode := range []byte{responseError, responseError, requestError} {
		if e := f.memory.at(0x12000+uint64(64*i), 64); e[63] != opcode<<4 || e[55] != 5 || be.Uint32(e[32:]) != 9 {
			t.Errorf("completion %d: %x", i, e)
		}
	}
	in.set("init2rtr_qp_in.qpn", number)
	f.modifyQP(opToReset, in)
	if q := f.sqs[uint32(number)]; q.pair.failed || q.consumed != 0 || q.pair.receive.consumed != 0 {
		t.Error("a pair that was reset does not begin again")
	}
}

// TestASharedQueueIsReadInTheOrderOfItsList: a program puts entries to its end in the order in which it is done with them.
func TestASharedQueueIsReadInTheOrderOfItsList(t *testing.T) {
	const memory, doorbell, queue = 0x18000, 0x12000, 0x13000
	_, f := two(t, false)
	be := binary.BigEndian
	in, out := make(buffer, 0x200), make(buffer, 16)
	wq := in.part("create_rmp_in.ctx").part("rmpc.wq")
	for name, v := range (values{"wq.log_wq_stride": 5, "wq.log_wq_sz": 2, "wq.dbr_addr": doorbell, "wq.pd": 7}) {
		wq.set(name, v)
	}
	be.PutUint64(wq.part("wq.pas"), queue)
	if status := f.createRMP(in, out); status != statusOK {
		t.Fatal(status)
	}
	key := aKey(f, memory, 7, 1, "mkc.lw")
	order := []uint32{0, 3, 1}
	for i, n := range order {
		entry := f.memory.at(queue+uint64(n)*32, 32)
		be.PutUint16(entry[2:], uint16(append(order, 2)[i+1]))
		be.PutUint32(entry[16:], 4)
		be.PutUint32(entry[20:], key)
		be.PutUint64(entry[24:], memory+uint64(n)*4)
	}
	be.PutUint32(f.memory.at(doorbell, 4), uint32(len(order)))
	q := f.srqs[out.word(2)]
	for i, text := range []string{"one.", "two.", "last"} {
		if _, n := q.first(); !f.hasRoom(q) || n != order[i] {
			t.Errorf("entry %d is %d", i, n)
		}
		if bad := f.scatter(q, []byte(text)); bad != fine {
			t.Errorf("entry %d: %#x", i, bad)
		}
	}
	if now := f.memory.at(memory, 16); f.hasRoom(q) || string(now) != "one.last\x00\x00\x00\x00two." {
		t.Errorf("there is %q", now)
	}
}
