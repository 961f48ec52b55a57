package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Verbs is an open uverbs device.
type Verbs struct{ fd int }

// OpenVerbs opens a uverbs device.
func OpenVerbs(path string) (Verbs, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return Verbs{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return Verbs{fd}, nil
}

// Close ends all that the kernel has for the device.
func (d Verbs) Close() error { return unix.Close(d.fd) }

// errLibrary means that the HCA's driver wants what only its own library knows (rdma-core, providers).
var errLibrary = errors.New("its driver makes a context for its own library alone")

// Numbers of rdma_user_ioctl_cmds.h and ib_user_ioctl_cmds.h.
const (
	request         = 0xc0181b01 // RDMA_VERBS_IOCTL, with a header of 24 bytes
	objectDevice    = 0
	queryPort       = 2
	getContext      = 3
	mandatory       = 1
	driverIn        = 0x1000 // what the driver gets from its library
	driverOut       = 0x1001
	drivers         = 32 // more than rdma_driver_id has
	driverMLX5      = 1
	portStateOffset = 26 // offset in struct ib_uverbs_query_port_resp_ex
	portAnswerSize  = 48
)

// header is struct ib_uverbs_ioctl_hdr, and attribute struct ib_uverbs_attr.
type header struct {
	length, object, method, count uint16
	_                             uint64
	driver                        uint32
	_                             uint32
	attributes                    [4]attribute
}

type attribute struct {
	id, length, flags, _ uint16
	data                 uint64
}

// ask calls a method of the object that stands for the device.
func (d Verbs) ask(method uint16, driver uint32, attributes ...attribute) error {
	h := header{object: objectDevice, method: method, count: uint16(len(attributes)), driver: driver}
	h.length = uint16(unsafe.Offsetof(h.attributes) + uintptr(len(attributes))*unsafe.Sizeof(attribute{}))
	copy(h.attributes[:], attributes)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), request, uintptr(unsafe.Pointer(&h)))
	if errno != 0 {
		return errno
	}
	return nil
}

// at makes an attribute of a buffer, which stays where it is until the pinner lets go.
func at(p *runtime.Pinner, id uint16, buffer []byte) attribute {
	p.Pin(&buffer[0])
	return attribute{id: id, length: uint16(len(buffer)), flags: mandatory, data: uint64(uintptr(unsafe.Pointer(&buffer[0])))}
}

// Context makes a context, without which nothing can be made of the HCA, and returns the number of its driver.
// The kernel refuses the number of another driver.
func (d Verbs) Context() (driver uint32, err error) {
	var p runtime.Pinner
	defer p.Unpin()
	vectors, support := at(&p, 0, make([]byte, 4)), at(&p, 1, make([]byte, 8))
	for driver = range drivers {
		attributes := []attribute{vectors, support}
		if driver == driverMLX5 {
			// struct mlx5_ib_alloc_ucontext_req_v2: 16 doorbells, 4 of them for low latency.
			want := make([]byte, 32)
			want[0], want[4] = 16, 4
			attributes = append(attributes, at(&p, driverIn, want), at(&p, driverOut, make([]byte, 256)))
		}
		switch err = d.ask(getContext, driver, attributes...); {
		case err == nil:
			return driver, nil
		case !errors.Is(err, unix.EINVAL):
			return 0, fmt.Errorf("make a context: %w", err)
		}
	}
	return 0, errLibrary
}

// IsActive asks whether a port is active.
func (d Verbs) IsActive(driver, port uint32) (bool, error) {
	const active = 4 // IB_PORT_ACTIVE
	var p runtime.Pinner
	defer p.Unpin()
	answer := make([]byte, portAnswerSize)
	err := d.ask(queryPort, driver, attribute{id: 0, length: 8, flags: mandatory, data: uint64(port)}, at(&p, 1, answer))
	if err != nil {
		return false, fmt.Errorf("query port %d: %w", port, err)
	}
	return answer[portStateOffset] == active, nil
}
