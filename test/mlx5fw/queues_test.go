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
