package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"syscall"
)

// The vfio-user protocol, the server's side: QEMU's docs/interop/vfio-user.rst. All numbers are
// the host's own, little-endian.

const (
	userVersion       = 1
	userDMAMap        = 2
	userDMAUnmap      = 3
	userDeviceInfo    = 4
	userRegionInfo    = 5
	userIRQInfo       = 7
	userSetIRQs       = 8
	userRegionRead    = 9
	userRegionWrite   = 10
	userDeviceReset   = 13
	flagReply         = 1
	flagNoReply       = 1 << 4
	flagError         = 1 << 5
	regionConfig      = 7 // vfio's index of the PCI configuration space
	regions           = 9
	irqMSIX           = 2 // vfio's index of MSI-X
	irqError          = 3 // and that of errors on the bus, which never come: QEMU warns if there is no such index
	irqs              = 5
	maxFDs            = 16
	messageHeaderSize = 16
)

// A device is what a server shows to QEMU.
type device interface {
	regionSize(region int) uint64
	read(region int, off uint64, data []byte)
	write(region int, off uint64, data []byte)
	vectors() int
	reset()
	alone(work func()) // a fault in it is the device's
}

// A server is one device's connection to QEMU.
type server struct {
	name   string
	device device
	conn   *net.UnixConn
	memory *memory
	mu     sync.Mutex // of events
	events map[int]int
}

// serve answers one QEMU until it closes the connection.
func (s *server) serve(conn *net.UnixConn) error {
	s.conn = conn
	s.mu.Lock()
	s.events = map[int]int{}
	s.mu.Unlock()
	defer s.device.alone(s.memory.clear)
	defer s.disable()
	for {
		header, fds, err := s.receive(messageHeaderSize)
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		command, size, flags := le.Uint16(header[2:]), le.Uint32(header[4:]), le.Uint32(header[8:])
		if size < messageHeaderSize || size > 2<<20 {
			return fmt.Errorf("message of %d bytes", size)
		}
		payload := make([]byte, size-messageHeaderSize)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return err
		}
		reply, err := s.answer(int(command), payload, fds)
		for _, fd := range fds {
			if fd >= 0 { // what answer keeps it sets to -1
				syscall.Close(fd)
			}
		}
		if flags&flagNoReply != 0 {
			continue
		}
		out := make([]byte, messageHeaderSize, messageHeaderSize+len(reply))
		copy(out, header[:4])
		le.PutUint32(out[8:], flagReply)
		if err != nil {
			var number syscall.Errno
			if !errors.As(err, &number) {
				number = syscall.EINVAL
			}
			log.Printf("%s: vfio-user command %d: %v", s.name, command, err)
			le.PutUint32(out[8:], flagReply|flagError)
			le.PutUint32(out[12:], uint32(number))
			reply = nil
		}
		out = append(out, reply...)
		le.PutUint32(out[4:], uint32(len(out)))
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
}

// receive reads so many bytes and the file descriptors that come with them.
func (s *server) receive(n int) ([]byte, []int, error) {
	data, control := make([]byte, n), make([]byte, syscall.CmsgSpace(4*maxFDs))
	got, controls, _, _, err := s.conn.ReadMsgUnix(data, control)
	if err != nil {
		return nil, nil, err
	}
	if got == 0 {
		return nil, nil, io.EOF
	}
	var fds []int
	messages, err := syscall.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		more, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, nil, err
		}
		fds = append(fds, more...)
	}
	_, err = io.ReadFull(s.conn, data[got:])
	return data, fds, err
}

// answer does what a message asks, and returns the payload of what is replied. What it keeps of the file
// descriptors it sets to -1.
func (s *server) answer(command int, in []byte, fds []int) (out []byte, err error) {
	le := binary.LittleEndian
	if least := map[int]int{userDMAMap: 32, userDMAUnmap: 24, userDeviceInfo: 16, userRegionInfo: 32, userIRQInfo: 16,
		userSetIRQs: 20, userRegionRead: 16, userRegionWrite: 16, userVersion: 4}[command]; len(in) < least {
		return nil, fmt.Errorf("%d bytes: %w", len(in), syscall.EINVAL)
	}
	switch command {
	case userVersion:
		text, err := json.Marshal(map[string]any{"capabilities": map[string]any{
			"max_msg_fds": maxFDs, "max_data_xfer_size": 1 << 20, "pgsizes": 4096}})
		return append(append(bytes.Clone(in[:4]), text...), 0), err
	case userDMAMap:
		if len(fds) == 0 {
			return nil, nil // of another device, and nothing that a driver would put a queue into
		}
		s.device.alone(func() {
			err = s.memory.add(fds[0], le.Uint64(in[8:]), le.Uint64(in[16:]), le.Uint64(in[24:]))
		})
		return nil, err
	case userDMAUnmap:
		s.device.alone(func() { s.memory.remove(le.Uint64(in[8:]), le.Uint64(in[16:])) })
		return in, nil
	case userDeviceInfo:
		out := make([]byte, 16)
		for i, v := range []uint32{16, 3 /* PCI, can be reset */, regions, irqs} {
			le.PutUint32(out[4*i:], v)
		}
		return out, nil
	case userRegionInfo:
		out, region := make([]byte, 32), le.Uint32(in[8:])
		le.PutUint32(out, 32)
		le.PutUint32(out[8:], region)
		if size := s.device.regionSize(int(region)); size != 0 {
			le.PutUint32(out[4:], 3) // to read and to write
			le.PutUint64(out[16:], size)
		}
		return out, nil
	case userIRQInfo:
		out, index := make([]byte, 16), le.Uint32(in[8:])
		le.PutUint32(out, 16)
		le.PutUint32(out[8:], index)
		if n := map[uint32]int{irqMSIX: s.device.vectors(), irqError: 1}[index]; n != 0 {
			le.PutUint32(out[4:], 1) // by eventfd
			le.PutUint32(out[12:], uint32(n))
		}
		return out, nil
	case userSetIRQs:
		return nil, s.setIRQs(le.Uint32(in[4:]), le.Uint32(in[8:]), le.Uint32(in[12:]), le.Uint32(in[16:]), fds)
	case userRegionRead:
		n := le.Uint32(in[12:])
		if n > 1<<20 {
			return nil, syscall.EINVAL
		}
		out := append(bytes.Clone(in[:16]), make([]byte, n)...)
		s.device.read(int(le.Uint32(in[8:])), le.Uint64(in), out[16:])
		return out, nil
	case userRegionWrite:
		s.device.write(int(le.Uint32(in[8:])), le.Uint64(in), in[16:])
		return in[:16], nil
	case userDeviceReset:
		s.device.reset()
		return nil, nil
	}
	return nil, syscall.ENOTSUP
}

// setIRQs takes the eventfds that MSI-X vectors are raised by.
func (s *server) setIRQs(flags, index, start, count uint32, fds []int) error {
	const none, byEventFD, trigger = 1, 4, 32
	if index != irqMSIX || flags&trigger == 0 {
		return nil
	}
	if flags&none != 0 && count == 0 {
		s.disable()
		return nil
	}
	if flags&byEventFD == 0 {
		return nil
	}
	if uint64(start)+uint64(count) > uint64(s.device.vectors()) {
		return fmt.Errorf("%d vectors from %d on: %w", count, start, syscall.EINVAL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range int(count) {
		vector := int(start) + i
		if old, ok := s.events[vector]; ok {
			syscall.Close(old)
			delete(s.events, vector)
		}
		if i < len(fds) {
			s.events[vector] = fds[i]
			fds[i] = -1
		}
	}
	return nil
}

// disable lets go of all eventfds.
func (s *server) disable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for vector, fd := range s.events {
		syscall.Close(fd)
		delete(s.events, vector)
	}
}

// raise sends the interrupt of a vector.
func (s *server) raise(vector int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd, ok := s.events[vector]; ok {
		one := [8]byte{1}
		if _, err := syscall.Write(fd, one[:]); err != nil {
			log.Printf("%s: raise vector %d: %v", s.name, vector, err)
		}
	}
}
