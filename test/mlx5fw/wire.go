package main

import (
	"encoding/binary"
	"fmt"
)

// What an interface sends comes to all others' first receive queue that is ready: the HCAs of
// one program are on one switch, which knows no addresses.

const (
	opcodeSend = 0x0a
	opcodeLSO  = 0x0e

	maxPacket     = 256 << 10
	logMaxMessage = 26 // of verbs
)

// transmit sends the packet of the entry that the send queue is at: a control segment of 16
// bytes, an Ethernet segment with the begin of the packet, and where the rest is.
func (f *firmware) transmit(q *sendQueue, units int) {
	be := binary.BigEndian
	var entry buffer
	for i := range (units*16 + 63) / 64 {
		entry = append(entry, q.entry(q.consumed+uint32(i))...)
	}
	if len(entry) < 32 || units*16 > len(entry) {
		return
	}
	entry = entry[:units*16]
	inlined := int(be.Uint16(entry[28:]) & 0x3ff)
	at := 32
	if inlined > 2 {
		at = 16 * ((30 + inlined + 15) / 16)
	}
	if 30+inlined > len(entry) {
		return
	}
	packet := append([]byte{}, entry[30:30+inlined]...)
	for ; at+16 <= len(entry); at += 16 {
		n := be.Uint32(entry[at:])
		if n>>31 != 0 { // it is here
			n = min(n&0x3ff, uint32(len(entry)-at-4))
			packet = append(packet, entry[at+4:][:n]...)
			at += 16*((4+int(n)+15)/16) - 16
			continue
		}
		packet = append(packet, f.memory.at(be.Uint64(entry[at+8:]), int(n&0x7fffffff))...)
		if len(packet) > maxPacket {
			panic(fault{text: "a packet of more than 256 KiB"})
		}
	}
	packets := [][]byte{packet}
	const l4 = 0x80
	if entry[3] == opcodeLSO {
		packets = segments(packet, inlined, int(be.Uint16(entry[22:])))
	} else if entry[20]&l4 != 0 {
		fillChecksum(packet)
	}
	if !f.carrier {
		return
	}
	for _, other := range f.wire() {
		if other != f && other.carrier && !other.infiniband {
			for _, each := range packets {
				other.contain(func() { other.receive(each) })
			}
		}
	}
}

// segments makes packets of one that is larger than the MTU: each has the header, of TCP, and so much of the rest.
func segments(packet []byte, header, most int) (all [][]byte) {
	const finOrPush = 0x09
	be := binary.BigEndian
	ip := headerOf(packet)
	if header > len(packet) || most == 0 || ip+20 > header {
		return nil
	}
	tcp := ip + 40
	if packet[ip]>>4 == 4 {
		tcp = ip + int(packet[ip]&0xf)*4
	}
	if tcp+20 > header {
		return nil
	}
	for off := header; off < len(packet); off += most {
		end := min(off+most, len(packet))
		one := append(append([]byte{}, packet[:header]...), packet[off:end]...)
		if n := len(all); packet[ip]>>4 == 4 {
			be.PutUint16(one[ip+2:], uint16(len(one)-ip))
			be.PutUint16(one[ip+4:], be.Uint16(packet[ip+4:])+uint16(n))
			be.PutUint16(one[ip+10:], 0)
			be.PutUint16(one[ip+10:], ^checksum(0, one[ip:tcp]))
		} else {
			be.PutUint16(one[ip+4:], uint16(len(one)-tcp))
		}
		be.PutUint32(one[tcp+4:], be.Uint32(packet[tcp+4:])+uint32(off-header))
		if end < len(packet) {
			one[tcp+13] &^= finOrPush
		}
		addresses := one[ip+8 : ip+40]
		if packet[ip]>>4 == 4 {
			addresses = one[ip+12 : ip+20]
		}
		const protocol = 6
		pseudo := uint32(checksum(0, addresses)) + protocol + uint32(len(one)-tcp)
		be.PutUint16(one[tcp+16:], 0)
		be.PutUint16(one[tcp+16:], ^checksum(pseudo, one[tcp:]))
		all = append(all, one)
	}
	return all
}

// headerOf returns where the header of IP begins, behind any tags of VLANs.
func headerOf(packet []byte) int {
	at := 14
	for at <= len(packet) && packet[at-2] == 0x81 && packet[at-1] == 0 {
		at += 4
	}
	return at
}

// receive puts a packet into the first queue that has room, or loses it. An interface that is
// down has a queue without room, for what is to be lost.
func (f *firmware) receive(packet []byte) {
	be := binary.BigEndian
	var q *receiveQueue
	for _, each := range f.rqs {
		if (q == nil || each.number < q.number) && f.hasRoom(each) {
			q = each
		}
	}
	// A driver whose buffers are smaller than a packet would take others for its rest.
	if q == nil || len(packet) < 14 || len(packet) > q.space() {
		return
	}
	counter := uint16(q.consumed)
	if f.scatter(q, packet) != fine {
		panic(fault{f.memory, fmt.Sprintf("receive queue %d has a buffer that its keys do not reach", q.number)})
	}
	f.complete(q.cq, 2, func(e buffer) {
		be.PutUint16(e[20:], checksum(0, packet[14:]))
		e[28] = 0x06 // both checksums are right
		be.PutUint32(e[44:], uint32(len(packet)))
		be.PutUint32(e[56:], q.number)
		be.PutUint16(e[60:], counter)
	})
}

func (f *firmware) hasRoom(q *receiveQueue) bool {
	return q.ready && uint16(q.consumed) != uint16(binary.BigEndian.Uint32(f.memory.at(q.doorbell, 4)))
}

// whole returns the entry that a send queue is at, of so many units of 16 bytes.
func (q *sendQueue) whole(units int) buffer {
	var entry buffer
	for i := range (units*16 + 63) / 64 {
		entry = append(entry, q.entry(q.consumed+uint32(i))...)
	}
	return entry[:units*16]
}

// gather reads what data segments say: how many bytes, and where, or the bytes themselves.
func (f *firmware) gather(a permission, segments buffer) (data []byte, bad syndrome) {
	be := binary.BigEndian
	a.right = localRead
	for at := 0; at+16 <= len(segments); at += 16 {
		n := int(be.Uint32(segments[at:]))
		if n>>31 != 0 { // it is here
			n = min(n&0x3ff, len(segments)-at-4)
			data = append(data, segments[at+4:][:n]...)
			at += (4+n+15)/16*16 - 16
			continue
		}
		if len(data)+n > 1<<logMaxMessage {
			panic(fault{text: fmt.Sprintf("a message of %d bytes", len(data)+n)})
		}
		more, bad := f.load(a, be.Uint32(segments[at+4:]), be.Uint64(segments[at+8:]), n)
		if bad != fine {
			return nil, bad
		}
		data = append(data, more...)
	}
	return data, fine
}

// scatter writes data to where the next entry of a receive queue says.
func (f *firmware) scatter(q *receiveQueue, data []byte) syndrome {
	be := binary.BigEndian
	entry, _ := q.first()
	a := q.permission
	a.right = localWrite
	q.take()
	for at := 0; at+16 <= len(entry) && len(data) > 0; at += 16 {
		n := min(int(be.Uint32(entry[at:])&0x7fffffff), len(data))
		if n == 0 {
			break
		}
		if bad := f.store(a, be.Uint32(entry[at+4:]), be.Uint64(entry[at+8:]), data[:n]); bad != fine {
			return bad
		}
		data = data[n:]
	}
	return fine
}

// space returns how many bytes the next entry of a receive queue takes.
func (q *receiveQueue) space() (n int) {
	entry := q.entry(q.consumed)
	for at := 0; at+16 <= len(entry); at += 16 {
		size := int(binary.BigEndian.Uint32(entry[at:]) & 0x7fffffff)
		if size == 0 {
			break
		}
		n += size
	}
	return n
}

// checksum returns the sum of 16 bits in one's complement that IP's checksums are made of.
func checksum(sum uint32, data []byte) uint16 {
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(data[i])<<8 | uint32(data[i+1])
	}
	if len(data)%2 != 0 {
		sum += uint32(data[len(data)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// fillChecksum ends the checksum of TCP or UDP that the driver began with the sum of the
// addresses.
func fillChecksum(packet []byte) {
	at, kind := 0, headerOf(packet)
	if kind+20 > len(packet) {
		return
	}
	var protocol byte
	switch ip := packet[kind:]; {
	case ip[0]>>4 == 4:
		at, protocol = kind+int(ip[0]&0xf)*4, ip[9]
		packet = packet[:min(len(packet), kind+int(binary.BigEndian.Uint16(ip[2:])))]
	case ip[0]>>4 == 6:
		at, protocol = kind+40, ip[6]
	}
	where := map[byte]int{6: at + 16, 17: at + 6}[protocol]
	if where == 0 || where+2 > len(packet) {
		return
	}
	binary.BigEndian.PutUint16(packet[where:], ^checksum(0, packet[at:]))
}
