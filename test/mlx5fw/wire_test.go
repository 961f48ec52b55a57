package main

import (
	"encoding/binary"
	"testing"
)

// TestALargePacketIsCutAsTCPWants holds the pieces of IPv4 and IPv6 to be whole packets of TCP.
func TestALargePacketIsCutAsTCPWants(t *testing.T) {
	be := binary.BigEndian
	for name, ip := range map[string][]byte{
		"IPv4": {0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2},
		"IPv6": append([]byte{0x60, 0, 0, 0, 0, 0, 6, 64}, make([]byte, 32)...),
	} {
		header := append(append(make([]byte, 14), ip...), make([]byte, 20)...)
		at, tcp := 14, 14+len(ip)
		be.PutUint32(header[tcp+4:], 1000)
		header[tcp+12], header[tcp+13] = 5<<4, 0x19 // ACK, PSH, FIN
		payload := make([]byte, 2500)
		for i := range payload {
			payload[i] = byte(i)
		}
		packets := segments(append(header, payload...), tcp+20, 1000)
		if len(packets) != 3 {
			t.Fatalf("%s: %d packets", name, len(packets))
		}
		for i, p := range packets {
			size, flags := 1000, byte(0x10)
			if i == 2 {
				size, flags = 500, 0x19
			}
			sum := uint32(6 + len(p) - tcp)
			if name == "IPv4" {
				if be.Uint16(p[at+2:]) != uint16(len(p)-at) || be.Uint16(p[at+4:]) != uint16(7+i) || checksum(0, p[at:tcp]) != 0xffff {
					t.Errorf("IPv4: packet %d: header %x", i, p[at:tcp])
				}
				sum += uint32(checksum(0, p[at+12:at+20]))
			} else if be.Uint16(p[at+4:]) != uint16(20+size) {
				t.Errorf("IPv6: packet %d: header %x", i, p[at:tcp])
			}
			if len(p) != tcp+20+size || be.Uint32(p[tcp+4:]) != uint32(1000+1000*i) || p[tcp+13] != flags || checksum(sum, p[tcp:]) != 0xffff || p[tcp+20] != payload[1000*i] {
				t.Errorf("%s: packet %d: %x", name, i, p[:tcp+20])
			}
		}
	}
	for _, rubbish := range [][]byte{nil, make([]byte, 20), make([]byte, 60)} {
		segments(rubbish, 40, 100)
		segments(rubbish, 1<<10, 1)
	}
}

// TestAPacketThatIsLargerThanABufferIsLost: a driver whose buffers are smaller would take others for its rest.
func TestAPacketThatIsLargerThanABufferIsLost(t *testing.T) {
	a, _ := two(t, false)
	memory := a.memory.parts[0].bytes
	be := binary.BigEndian
	pages := make(buffer, 8)
	be.PutUint64(pages, 0x11000)
	q := &receiveQueue{ring: newRing(a.memory, pages, 12, 4, 2, 0), number: 64, doorbell: 0x10000, ready: true}
	a.rqs[64] = q
	be.PutUint32(memory, 1)            // one entry is there
	be.PutUint32(memory[0x1000:], 100) // of so many bytes
	be.PutUint64(memory[0x1008:], 0x12000)
	a.alone(func() { a.receive(make([]byte, 101)) })
	if q.consumed != 0 {
		t.Error("a packet of 101 bytes came into a buffer of 100")
	}
	a.alone(func() { a.receive(make([]byte, 100)) })
	if q.consumed != 1 {
		t.Error("a packet of 100 bytes did not come")
	}
}
