package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// two returns two HCAs on a switch, each with 64 KiB of a guest's memory at 0x10000.
func two(t testing.TB, infiniband bool) (a, b *firmware) {
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	c := cards{roce: 2, nodes: 1}
	if infiniband {
		c = cards{ib: 2, nodes: 1}
	}
	all := c.functions()
	for _, f := range all {
		f.memory.parts = []part{{0x10000, make([]byte, 1<<16)}}
	}
	return all[0], all[1]
}

// answers holds a device to do what a driver that begins asks of it.
func answers(t *testing.T, f *firmware) {
	t.Helper()
	f.reset()
	f.memory.parts = []part{{0x10000, make([]byte, 1<<16)}}
	in := make(buffer, 16)
	in.setWord(0, opQueryISSI<<16)
	if out := f.do(in, 112); out.get("query_issi_out.supported_issi_dw0") != 2 {
		t.Errorf("a device that began again answers %x", out)
	}
}

// misuse does what a driver might, with rubbish for what it says. What it read of data is gone.
func misuse(f *firmware, data []byte) {
	next := func(n int) []byte {
		part := make([]byte, n)
		data = data[copy(part, data):]
		return part
	}
	be := binary.BigEndian
	sorted := slices.Sorted(func(yield func(int) bool) {
		for opcode := range opcodes {
			if !yield(opcode) {
				return
			}
		}
	})
	for len(data) > 0 {
		switch kind := next(1)[0]; kind % 4 {
		case 0: // a command that there is, of rubbish
			at := f.memory.parts[0].bytes
			in := make(buffer, 16)
			copy(in[4:], next(12))
			in.setWord(0, uint32(sorted[int(kind)*len(sorted)/256])<<16|in.word(0)&0xffff)
			be.PutUint32(at[4:], uint32(be.Uint16(next(2))))
			be.PutUint64(at[8:], 0x11000)
			copy(at[16:32], in)
			be.PutUint64(at[48:], 0x13000)
			be.PutUint32(at[56:], uint32(be.Uint16(next(2))))
			copy(at[0x1000:], next(int(next(1)[0])*2))
			f.write(0, segQueueHigh, []byte{0, 0, 0, 0})
			f.write(0, segQueueLow, []byte{0, 1, 0, 0})
			f.write(0, segDoorbell, []byte{0, 0, 0, 1})
		case 1: // an entry of the command queue that is rubbish
			copy(f.memory.parts[0].bytes, next(64))
			f.write(0, segQueueLow, []byte{0, 1, 0, 0})
			f.write(0, segDoorbell, next(4))
		case 2: // a doorbell
			off := uint64(firstUAR)<<12 + []uint64{0x20, 0x40, 0x48, 0x800, 0x900, 0xa00}[int(next(1)[0])%6]
			f.write(0, off, next(8))
		default: // memory
			copy(f.memory.parts[0].bytes[be.Uint16(next(2)):], next(64))
		}
	}
}

// TestRubbishFromADriverEndsItsDeviceAlone has drivers of two HCAs say rubbish, in an order that is always the same.
func TestRubbishFromADriverEndsItsDeviceAlone(t *testing.T) {
	for _, infiniband := range []bool{false, true} {
		a, b := two(t, infiniband)
		random := rand.NewChaCha8([32]byte{1})
		faults := 0
		for range 3000 {
			data := make([]byte, 400)
			random.Read(data)
			generation := a.generation
			misuse(a, data)
			misuse(b, data[200:])
			if a.generation != generation {
				faults++
			}
		}
		answers(t, a)
		answers(t, b)
		if faults < 100 {
			t.Errorf("only %d of 3000 times there was a fault", faults)
		}
	}
}

func FuzzDriver(f *testing.F) {
	f.Add([]byte{0}, false)
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3}, 50), true)
	f.Fuzz(func(t *testing.T, data []byte, infiniband bool) {
		a, b := two(t, infiniband)
		misuse(a, data)
		misuse(b, data)
		answers(t, a)
		answers(t, b)
	})
}

// TestAFaultInAnothersMemoryIsTheOthers sends a packet to an HCA whose driver has a queue in memory that there is none
// of: the sender's own is well.
func TestAFaultInAnothersMemoryIsTheOthers(t *testing.T) {
	a, b := two(t, false)
	b.carrier = true
	b.rqs[1] = &receiveQueue{ready: true, doorbell: 0xdead0000}
	before, other := a.generation, b.generation
	a.alone(func() {
		a.carrier = true
		for _, f := range a.wire() {
			if f != a {
				f.contain(func() { f.receive(make([]byte, 64)) })
			}
		}
	})
	if a.generation != before || b.generation == other {
		t.Error("the sender failed, or the receiver did not")
	}
	if b.segment(segQueueLow)>>8&7 == 0 {
		t.Error("the receiver's interface is not disabled")
	}
}

// TestWhatIsNotKnownIsSaidOnce holds the log to name a command and a register that the firmware lacks.
func TestWhatIsNotKnownIsSaidOnce(t *testing.T) {
	f, _ := two(t, false)
	var said bytes.Buffer
	log.SetOutput(&said)
	in := make(buffer, 16)
	for range 2 {
		in.setWord(0, 0xbad<<16)
		if f.do(in, 16)[0] != statusBadOp {
			t.Error("a command that is none was done")
		}
		in.setWord(0, opAccessRegister<<16)
		in.set("access_register_in.register_id", 0xbee)
		f.do(in, 32)
	}
	for _, want := range []string{"0: unknown command 0xbad\n", "0: unknown register 0xbee\n"} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("wanted %q once:\n%s", want, said.String())
		}
	}
}

// listening serves a device, and returns QEMU's side and what comes when it has ended.
func listening(t testing.TB) (*firmware, *net.UnixConn, chan error) {
	f, _ := two(t, false)
	f.memory.parts = nil
	path := filepath.Join(t.TempDir(), "0")
	listener, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	done := make(chan error, 1)
	go func() { done <- f.accept(listener) }()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return f, conn, done
}

// FuzzMessages has QEMU's side say rubbish: each connection ends, and the program does not.
func FuzzMessages(f *testing.F) {
	for command := range byte(16) {
		message := make([]byte, messageHeaderSize+40)
		message[2], message[4] = command, byte(len(message))
		f.Add(slices.Concat(message, bytes.Repeat([]byte{0xff}, 40), message))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		device, conn, done := listening(t)
		conn.SetDeadline(time.Now().Add(time.Minute))
		go io.Copy(io.Discard, conn)
		conn.Write(data)
		conn.CloseWrite()
		<-done
		conn.Close()
		answers(t, device)
	})
}

// TestAWindowBeyondItsFileIsRefused: who read there would be killed.
func TestAWindowBeyondItsFileIsRefused(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(1 << 12); err != nil {
		t.Fatal(err)
	}
	m := &memory{}
	for _, window := range [][3]uint64{{0, 0, 1 << 13}, {1 << 12, 0, 1 << 12}, {1 << 63, 0, 1 << 63}, {0, ^uint64(0), 1 << 12}} {
		if m.add(int(file.Fd()), window[0], window[1], window[2]) == nil {
			t.Errorf("%#x was mapped", window)
		}
	}
	if err := m.add(int(file.Fd()), 0, 0, 1<<12); err != nil {
		t.Error(err)
	}
	m.clear()
}

// TestACardHasItsFunctions holds the addresses of two nodes' HCAs apart, and pairs together.
func TestACardHasItsFunctions(t *testing.T) {
	all := cards{roce: 1, pairs: 1, ib: 1, nodes: 2}.functions()
	macs, systems := map[uint64]bool{}, map[uint64]int{}
	for _, f := range all {
		macs[f.mac] = true
		systems[f.system()]++
	}
	if len(all) != 8 || len(macs) != 8 || len(systems) != 6 || !all[7].infiniband || all[0].infiniband || !all[2].sibling {
		t.Errorf("%d functions, %d MACs, %d cards", len(all), len(macs), len(systems))
	}
}

// TestAnOrderOfTheControlFileNamesAnHCA: what names none is said, and no end.
func TestAnOrderOfTheControlFileNamesAnHCA(t *testing.T) {
	a, b := two(t, false)
	all := []*firmware{a, b}
	for _, line := range []string{"", "fail", "fail 2", "fail -1", "burn 0"} {
		if order(line, all) == nil {
			t.Errorf("%q was done", line)
		}
	}
	a.alone(func() { a.setPort(true) })
	for _, c := range []struct {
		line string
		want bool
	}{{"out 0", false}, {"in 0", true}, {"fail 1", true}, {"fail 0", false}} {
		if err := order(c.line, all); err != nil || a.carrier != c.want {
			t.Errorf("after %q the carrier is %v: %v", c.line, a.carrier, err)
		}
	}
}

// TestACommandIsRefusedOrDelayedWhenThatIsOrdered asks for the adapter.
func TestACommandIsRefusedOrDelayedWhenThatIsOrdered(t *testing.T) {
	f := guest()
	in := make(buffer, 16)
	in.setWord(0, opQueryAdapter<<16)
	for _, c := range []struct {
		line string
		want byte
	}{{"refuse 0 QUERY_ADAPTER", statusInternal}, {"refuse 0 QUERY_PAGES", statusOK}, {"refuse 0", statusOK}} {
		if err := order(c.line, []*firmware{f}); err != nil || f.do(in, 112)[0] != c.want {
			t.Errorf("%s: %v", c.line, err)
		}
	}
	if err := order("slow 0 1h", []*firmware{f}); err != nil {
		t.Fatal(err)
	}
	e := f.memory.at(0x10000, 64)
	e[63] = 1
	f.write(0, segDoorbell, []byte{0, 0, 0, 1})
	if e[63] != 1 {
		t.Error("a slow command is done at once")
	}
	if err := order("slow 0 0s", []*firmware{f}); err != nil || f.do(in, 112)[0] != statusOK {
		t.Error(err)
	}
	for _, line := range []string{"slow 0", "slow 0 much", "refuse 0 NONSENSE"} {
		if order(line, []*firmware{f}) == nil {
			t.Errorf("%q is taken", line)
		}
	}
}
