package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"math/bits"
	"time"
)

// Offsets in the initialization segment, which all of the driver's talk begins with.
const (
	segFirmware     = 0x00
	segCommand      = 0x04
	segQueueHigh    = 0x10
	segQueueLow     = 0x14
	segDoorbell     = 0x18
	segInitializing = 0x1fc
	segHealth       = 0x200
	segTimerHigh    = 0x1000
	segTimerLow     = 0x1004
	segHealthCount  = 0x1010

	firmwareMajor, firmwareMinor, firmwareSub = 22, 39, 1002

	logCommands = 5 // 32 entries
	logStride   = 6 // of 64 bytes
	mailboxData = 512
	mailboxSize = 576
	mailboxNext = 560
	maxCommand  = 4 << 20 // bytes: a memory key lists eight for each page
)

// A firmware is one function of an HCA.
type firmware struct {
	settings
	*server
	config []byte
	begun  time.Time

	queueHigh, queueLow uint32
	pages               []uint64 // of the guest, lent to the firmware
	changed             map[int]buffer
	vport               buffer // of type nic_vport_context
	registers           map[string]buffer
	up                  bool // by PAOS
	carrier             bool
	unplugged           bool            // the cable
	generation          int             // counts resets
	told                map[string]bool // what it does not know
	delay               time.Duration   // of each command
	refused             string          // the name of a command that fails

	numbers map[string]map[uint32]bool
	eqs     map[uint32]*eventQueue
	cqs     map[uint32]*completionQueue
	sqs     map[uint32]*sendQueue
	rqs     map[uint32]*receiveQueue
	srqs    map[uint32]*receiveQueue // shared

	keys      map[uint32]*memoryKey
	addresses map[int]buffer // RoCE's, of type roce_addr_layout
}

// What the command line sets.
type settings struct {
	index      int
	card       int  // the index of its card's first function
	sibling    bool // whether the card has another
	deviceID   uint16
	mac        uint64
	infiniband bool
	train      time.Duration
	wire       func() []*firmware // all that are on the same switch
	verbose    bool
}

func newFirmware(name string, s settings) *firmware {
	f := &firmware{settings: s, begun: time.Now(), told: map[string]bool{}}
	f.server = &server{name: name, device: f, memory: &memory{}, events: map[int]int{}}
	f.reset()
	return f
}

func (f *firmware) guid() uint64 { return guidOf(f.mac) }

// system returns the GUID of the card.
func (f *firmware) system() uint64 { return guidOf(f.mac - uint64(f.index-f.card)<<8) }

func guidOf(mac uint64) uint64 { return mac>>24<<40 | 0xfffe<<24 | mac&0xffffff }

// reset leaves nothing of what a driver did.
func (f *firmware) reset() {
	f.alone(func() {
		f.config = newConfig(f.deviceID, f.guid())
		f.forget()
	})
}

// forget leaves the state of a firmware that begins.
func (f *firmware) forget() {
	f.queueHigh, f.queueLow, f.pages = 0, 0, nil
	f.up, f.carrier = false, false
	f.generation++
	f.registers = map[string]buffer{}
	f.changed = map[int]buffer{}
	f.numbers = map[string]map[uint32]bool{}
	f.eqs, f.cqs = map[uint32]*eventQueue{}, map[uint32]*completionQueue{}
	f.sqs, f.rqs = map[uint32]*sendQueue{}, map[uint32]*receiveQueue{}
	f.srqs = map[uint32]*receiveQueue{}
	f.keys, f.addresses = map[uint32]*memoryKey{}, map[int]buffer{}
	f.vport = make(buffer, find("query_nic_vport_context_out.nic_vport_context").bits/8)
	for name, v := range map[string]uint64{
		"nic_vport_context.mtu": 1500, "nic_vport_context.system_image_guid": f.system(),
		"nic_vport_context.port_guid": f.guid(), "nic_vport_context.node_guid": f.guid(),
		"nic_vport_context.permanent_address.mac_addr_47_32": f.mac >> 32,
		"nic_vport_context.permanent_address.mac_addr_31_0":  f.mac & 0xffffffff,
	} {
		f.vport.set(name, v)
	}
}

func (f *firmware) vectors() int { return msixVectors }

func (f *firmware) regionSize(region int) uint64 {
	switch region {
	case 0:
		return barSize
	case regionConfig:
		return uint64(len(f.config))
	}
	return 0
}

func (f *firmware) read(region int, off uint64, data []byte) {
	f.alone(func() {
		switch {
		case region == regionConfig && off < uint64(len(f.config)):
			copy(data, f.config[off:])
		case region == 0:
			for i := range data {
				at := off + uint64(i)
				data[i] = byte(f.segment(at&^3) >> (24 - 8*(at&3)))
			}
		}
	})
}

// segment returns a word of the initialization segment.
func (f *firmware) segment(off uint64) uint32 {
	since := uint64(time.Since(f.begun))
	switch off {
	case segFirmware:
		return firmwareMinor<<16 | firmwareMajor
	case segCommand:
		return 5<<16 | firmwareSub // revision of the command interface
	case segQueueHigh:
		return f.queueHigh
	case segQueueLow:
		return f.queueLow&^0xff | logCommands<<4 | logStride
	case segInitializing:
		return 0
	case segHealth + 48:
		return firmwareMajor<<24 | firmwareMinor<<16 | firmwareSub
	case segHealthCount:
		return uint32(since / 1e7)
	case segTimerHigh:
		return uint32(since >> 32)
	case segTimerLow:
		return uint32(since)
	}
	return 0
}

func (f *firmware) write(region int, off uint64, data []byte) {
	if region == regionConfig {
		f.writeConfig(off, data)
		return
	}
	if region == 0 && len(data) >= 4 {
		f.alone(func() { f.writeBAR(off, data) })
	}
}

func (f *firmware) writeBAR(off uint64, data []byte) {
	word := binary.BigEndian.Uint32(data)
	switch {
	case off == segQueueHigh:
		f.queueHigh = word
	case off == segQueueLow:
		f.queueLow = word // with the state of the interface, which only a driver that begins sets to 0
	case off == segDoorbell:
		f.ring(word)
	case off >= firstUAR<<12:
		f.doorbell(off&0xfff, data)
	}
}

func (f *firmware) writeConfig(off uint64, data []byte) {
	const express, msix, power = 0x60, 0x9c, 0x40
	writable := map[uint64]byte{0x04: 0x47, 0x05: 0x05, 0x0c: 0xff, 0x3c: 0xff, express + 8: 0xff, express + 9: 0x7f,
		express + 16: 0xff, express + 40: 0xff, express + 48: 0xff, msix + 3: 0xc0, power + 4: 0x03}
	for i, v := range data {
		at := off + uint64(i)
		if at == express+9 && v&0x80 != 0 { // a function level reset
			f.reset()
			return
		}
		if mask := writable[at]; mask != 0 {
			f.config[at] = f.config[at]&^mask | v&mask
		}
	}
}

// ring does the commands that the driver has rung for, if need be later.
func (f *firmware) ring(which uint32) {
	if f.delay > 0 {
		f.later(f.delay, func() { f.commands(which) })
		return
	}
	f.commands(which)
}

// commands does those of these numbers.
func (f *firmware) commands(which uint32) {
	told := f.eqFor(eventCommand) // as it was before: it may go now, or have come
	for rest := which; rest != 0; rest &= rest - 1 {
		f.command(bits.TrailingZeros32(rest))
	}
	if told != nil && f.eqs[told.number] == told {
		data := make([]byte, 28)
		binary.BigEndian.PutUint32(data, which)
		f.event(told, eventCommand, 0, data)
	}
}

// command does the one in an entry of the command queue: the first 16 bytes of what goes in and
// what comes out are in the entry, the rest is in chains of mailboxes.
func (f *firmware) command(entry int) {
	be := binary.BigEndian
	queue := uint64(f.queueHigh)<<32 | uint64(f.queueLow)&^0xfff
	e := f.memory.at(queue+uint64(entry)<<logStride, 1<<logStride)
	if most := max(be.Uint32(e[4:]), be.Uint32(e[56:])); most > maxCommand {
		panic(fault{text: fmt.Sprintf("a command of %d bytes", most)})
	}
	in := append(make(buffer, 0, be.Uint32(e[4:])), e[16:32]...)
	for next, length := be.Uint64(e[8:]), int(be.Uint32(e[4:])); len(in) < length && next != 0; {
		box := f.memory.at(next, mailboxSize)
		in = append(in, box[:min(mailboxData, length-len(in))]...)
		next = be.Uint64(box[mailboxNext:])
	}
	out := make(buffer, max(16, be.Uint32(e[56:])))
	begun := time.Now()
	status := statusInternal
	if f.refused == "" || f.refused != opcodes[in.opcode()] {
		status = f.execute(in, out)
	}
	out[0] = byte(status)
	if f.verbose || status != statusOK {
		log.Printf("%s: %s in %d out %d status %d %v", f.name, f.describe(in), len(in), len(out), status, time.Since(begun).Round(time.Microsecond))
	}
	copy(e[32:48], out)
	rest := out[min(16, len(out)):]
	for next := be.Uint64(e[48:]); len(rest) > 0 && next != 0; {
		box := f.memory.at(next, mailboxSize)
		rest = rest[copy(box[:mailboxData], rest):]
		next = be.Uint64(box[mailboxNext:])
	}
	e[63] = 0 // delivered, and the driver's again
}

// describe names a command for the log.
func (f *firmware) describe(in buffer) string {
	opcode := in.opcode()
	s := fmt.Sprintf("%#x %s.%d", opcode, opcodes[opcode], in.mod())
	if opcode == opAccessRegister {
		id := int(in.get("access_register_in.register_id"))
		s += fmt.Sprintf(" %#x %s", id, registers[id])
		if data := in.part("access_register_in.register_data"); in.mod() == 0 { // it is written
			s += fmt.Sprintf(" %x", data[:min(16, len(data))])
		}
	}
	return s
}

// number gives out the lowest free one of a kind, from first on; 0 at the end.
func (f *firmware) number(kind string, first, limit uint32) uint32 {
	used := f.numbers[kind]
	if used == nil {
		used = map[uint32]bool{}
		f.numbers[kind] = used
	}
	for n := first + uint32(len(used))/2; n < limit; n++ { // most that are used are low
		if !used[n] {
			used[n] = true
			return n
		}
	}
	for n := first; n < limit; n++ {
		if !used[n] {
			used[n] = true
			return n
		}
	}
	return 0
}

// setPort does what PAOS asks: the carrier comes when the link has been trained.
func (f *firmware) setPort(up bool) {
	if f.up == up {
		return
	}
	f.up = up
	if !up || f.train == 0 {
		f.setCarrier(up)
		return
	}
	f.later(f.train, func() { f.setCarrier(true) })
}

// setCarrier tells the driver of a carrier that comes or goes. None comes while the port is down or has no cable.
func (f *firmware) setCarrier(on bool) {
	on = on && f.up && !f.unplugged
	if f.carrier == on {
		return
	}
	f.carrier = on
	const down, active = 1, 4
	subtype := byte(down)
	if on {
		subtype = active
	}
	if eq := f.eqFor(eventPort); eq != nil {
		data := make([]byte, 28)
		data[8] = 1 << 4 // port 1
		f.event(eq, eventPort, subtype, data)
	}
}

// fail has a fatal fault: the interface is disabled, as the driver's health poll sees within
// seconds, until the driver begins again.
func (f *firmware) fail() {
	const disabled = 1
	f.forget()
	f.queueLow |= disabled << 8
}
