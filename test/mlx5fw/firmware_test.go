package main

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestAFieldIsWhereTheHeaderSays(t *testing.T) {
	b := make(buffer, 32)
	b.set("create_eq_out.eq_number", 0x5a)
	if want := []byte{0, 0, 0, 0x5a}; !bytes.Equal(b[8:12], want) {
		t.Errorf("%x", b)
	}
	for _, path := range []string{"cmd_hca_cap.log_max_qp", "cqc.dbr_addr", "nic_vport_context.mtu", "qpc.remote_qpn"} {
		b := make(buffer, 4096)
		most := uint64(1)<<find(path).bits - 1
		for _, v := range []uint64{most, 0, most & 0x5555555555555555} {
			if b.set(path, v); b.get(path) != v {
				t.Errorf("%s: set %#x, got %#x", path, v, b.get(path))
			}
		}
		b.set(path, most)
		n := 0
		for _, each := range b {
			for ; each != 0; each &= each - 1 {
				n++
			}
		}
		if n != find(path).bits {
			t.Errorf("%s: %d bits are set", path, n)
		}
	}
}

// guest returns a firmware with some of a guest's memory.
func guest() *firmware {
	f := newFirmware("test", settings{mac: 0xb83fd2000000})
	f.memory.parts = []part{{0x10000, make([]byte, 1<<16)}}
	f.wire = func() []*firmware { return []*firmware{f} }
	return f
}

// do has the driver's side of a command of one mailbox each way at most.
func (f *firmware) do(in buffer, size int) buffer {
	be := binary.BigEndian
	e := f.memory.at(0x10000, 64)
	clear(e)
	be.PutUint32(e[4:], uint32(len(in)))
	copy(e[16:32], in)
	copy(f.memory.at(0x11000, mailboxSize), in[min(16, len(in)):])
	be.PutUint64(e[8:], 0x11000)
	be.PutUint32(e[56:], uint32(size))
	be.PutUint64(e[48:], 0x12000)
	e[63] = 1
	f.write(0, segQueueLow, []byte{0, 1, 0, 0})
	f.write(0, segDoorbell, []byte{0, 0, 0, 1})
	if e[63]&1 != 0 {
		panic("not done")
	}
	out := append(make(buffer, 0, size), e[32:48]...)
	return append(out, f.memory.at(0x12000, mailboxSize)[:size-16]...)
}

func TestACommandTellsTheMAC(t *testing.T) {
	f := guest()
	in := make(buffer, 16)
	in.setWord(0, opQueryNICVport<<16)
	out := f.do(in, 272)
	if mac := out.part("query_nic_vport_context_out.nic_vport_context").get("nic_vport_context.permanent_address.mac_addr_31_0"); mac != 0xd2000000 {
		t.Errorf("%#x", mac)
	}
}

func TestPagesComeBack(t *testing.T) {
	f := guest()
	in := make(buffer, 32)
	in.setWord(0, opManagePages<<16)
	in.setWord(1, 1)
	in.set("manage_pages_in.input_num_entries", 2)
	binary.BigEndian.PutUint64(in.part("manage_pages_in.pas"), 0x5000)
	binary.BigEndian.PutUint64(in.part("manage_pages_in.pas")[8:], 0x6000)
	f.do(in, 16)
	in.setWord(1, 2)
	in.set("manage_pages_in.input_num_entries", 9)
	out := f.do(in[:16], 16+9*8)
	if out.get("manage_pages_out.output_num_entries") != 2 || binary.BigEndian.Uint64(out.part("manage_pages_out.pas")[8:]) != 0x6000 {
		t.Errorf("%x", out)
	}
}

func TestAnObjectHasANumberUntilItGoes(t *testing.T) {
	f := guest()
	in := make(buffer, 16)
	in.setWord(0, 0x800<<16)
	first, second := f.do(in, 16).word(2), f.do(in, 16).word(2)
	if first == second || first == 0 {
		t.Error(first, second)
	}
	in.setWord(0, 0x801<<16)
	in.setWord(2, first)
	if status := f.do(in, 16)[0]; status != statusOK {
		t.Error(status)
	}
	if status := f.do(in, 16)[0]; status != statusBadParam {
		t.Error("it went twice")
	}
}

func TestAChecksumIsRight(t *testing.T) {
	ip := []byte{0x45, 0, 0, 0x54, 0, 0, 0x40, 0, 0x40, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	binary.BigEndian.PutUint16(ip[10:], ^checksum(0, ip))
	if checksum(0, ip) != 0xffff {
		t.Errorf("%x", ip)
	}
}
