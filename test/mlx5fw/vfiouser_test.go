package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A client is QEMU's side of the protocol.
type client struct {
	t    *testing.T
	conn *net.UnixConn
}

// ask sends a message and returns the payload of its answer.
func (c client) ask(command uint16, payload []byte, fds ...int) []byte {
	c.t.Helper()
	le := binary.LittleEndian
	message := make([]byte, messageHeaderSize, messageHeaderSize+len(payload))
	le.PutUint16(message, 7)
	le.PutUint16(message[2:], command)
	le.PutUint32(message[4:], uint32(messageHeaderSize+len(payload)))
	if _, _, err := c.conn.WriteMsgUnix(append(message, payload...), syscall.UnixRights(fds...), nil); err != nil {
		c.t.Fatal(err)
	}
	header := make([]byte, messageHeaderSize)
	if _, err := io.ReadFull(c.conn, header); err != nil {
		c.t.Fatal(err)
	}
	if flags := le.Uint32(header[8:]); le.Uint16(header) != 7 || flags != flagReply {
		c.t.Fatalf("command %d: message %d, flags %#x, error %d", command, le.Uint16(header), flags, le.Uint32(header[12:]))
	}
	answer := make([]byte, le.Uint32(header[4:])-messageHeaderSize)
	if _, err := io.ReadFull(c.conn, answer); err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// access returns the head of a message that reads or writes a region.
func access(region uint32, off uint64, n int) []byte {
	le := binary.LittleEndian
	return le.AppendUint32(le.AppendUint32(le.AppendUint64(nil, off), region), uint32(n))
}

func (c client) write(off uint64, word uint32) {
	c.ask(userRegionWrite, binary.BigEndian.AppendUint32(access(0, off, 4), word))
}

func TestACommandComesByQEMU(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0")
	listener, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	f := guest()
	f.memory.parts = nil
	done := make(chan error)
	go func() { done <- f.accept(listener) }()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	c, le, be := client{t, conn}, binary.LittleEndian, binary.BigEndian
	c.ask(userVersion, []byte("\x00\x00\x01\x00{\"capabilities\":{}}\x00"))
	if info := c.ask(userDeviceInfo, make([]byte, 16)); le.Uint32(info[8:]) != regions {
		t.Errorf("%x", info)
	}
	if id := c.ask(userRegionRead, access(regionConfig, 0, 2)); le.Uint16(id[16:]) != vendorID {
		t.Errorf("%x", id)
	}
	// 16 KiB of memory at 0x40000: the command queue, and where what comes out goes
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	entry := make(buffer, 1<<14)
	be.PutUint32(entry[4:], 16)
	entry.setWord(4, opQueryISSI<<16)
	be.PutUint64(entry[48:], 0x41000)
	be.PutUint32(entry[56:], 112)
	entry[63] = 1
	if _, err := file.Write(entry); err != nil {
		t.Fatal(err)
	}
	window := le.AppendUint64(le.AppendUint64(le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, 32), 3), 0), 0x40000), 1<<14)
	c.ask(userDMAMap, window, int(file.Fd()))
	c.write(segQueueHigh, 0)
	c.write(segQueueLow, 0x40000)
	c.write(segDoorbell, 1)
	if _, err := file.ReadAt(entry, 0); err != nil {
		t.Fatal(err)
	}
	out := append(append(buffer{}, entry[32:48]...), entry[0x1000:]...)
	if entry[63] != 0 || out.get("query_issi_out.supported_issi_dw0") != 2 {
		t.Errorf("the entry is %x", entry[:64])
	}
	conn.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
