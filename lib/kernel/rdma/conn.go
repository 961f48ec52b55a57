// Package rdma speaks RDMA netlink: which RDMA devices a namespace has, the
// node's netns mode, and moving a device. What only a uverbs device tells it asks
// there, as libibverbs does (verbs.go).
package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netlink"
)

var (
	// ErrNoRDMA means that the kernel has no RDMA subsystem.
	ErrNoRDMA = errors.New("no RDMA subsystem in the kernel")
	// ErrBusy means that the mode cannot be changed while there is a network
	// namespace besides the first, be it one that is dying.
	ErrBusy = errors.New("there are other network namespaces")
	// ErrNoCharDevice means that the device has no character device of that kind.
	ErrNoCharDevice = errors.New("no character device")
	// ErrNameTaken means that another RDMA device of the namespace has the name.
	ErrNameTaken = errors.New("another RDMA device has that name")
)

// Named says of a request that gives a device a name, or takes it to where it keeps its
// own, what the kernel means. Up to 7.2 the node has each name once, in whatever namespace.
func Named(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return ErrNameTaken
	}
	return err
}

// Commands and attributes of include/uapi/rdma/rdma_netlink.h that x/sys/unix lacks.
const (
	clientNldev = 5

	cmdGet        = 1
	cmdSet        = 2
	cmdPortGet    = 5
	cmdSysGet     = 6
	cmdSysSet     = 7
	cmdGetCharDev = 15

	attrDevIndex    = 1
	attrDevName     = 2
	attrPortIndex   = 3
	attrNodeGUID    = 6
	attrPortState   = 12
	attrNdevIndex   = 50
	attrNetnsMode   = 66
	attrNetnsFD     = 68
	attrCharDevType = 69
	attrCharDev     = 72
	attrDriverID    = 73
	attrDevType     = 99
	attrParentName  = 100
)

// Conn asks about the network namespace that the calling thread was in when it dialed.
type Conn struct {
	socket *netlink.Socket
}

// Dial opens a connection in the calling thread's network namespace. The
// kernel loads ib_core for it; without RDMA in the kernel it is ErrNoRDMA.
func Dial() (*Conn, error) {
	s, err := netlink.Open(unix.NETLINK_RDMA)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, hint.With(ErrNoRDMA, "GN223 is this node meant to have HCAs? then load ib_core and the HCAs' driver")
	}
	if err != nil {
		return nil, fmt.Errorf("open RDMA netlink: %w", err)
	}
	return &Conn{s}, nil
}

// Close closes the connection.
func (c *Conn) Close() { c.socket.Close() }

// Mode is how the node shares its RDMA devices between network namespaces.
type Mode string

// The two modes that the kernel has (rdma-system(8)).
const (
	Shared    Mode = "shared"
	Exclusive Mode = "exclusive"
)

// Mode asks the kernel for the node's mode.
func (c *Conn) Mode() (Mode, error) {
	answers, err := c.send(cmdSysGet, 0, nil)
	if errors.Is(err, unix.EINVAL) {
		// Before 5.2 there is no such command and no exclusive mode.
		return Shared, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the RDMA netns mode: %w", err)
	}
	for _, a := range answers {
		if v := a.Value(attrNetnsMode); len(v) == 1 {
			if v[0] == 0 {
				return Exclusive, nil
			}
			return Shared, nil
		}
	}
	return "", errors.New("read the RDMA netns mode: the kernel's answer has none")
}

// SetMode changes the node's mode. It is ErrBusy while the kernel knows of a
// namespace but the first (device.c:rdma_compatdev_set).
func (c *Conn) SetMode(m Mode) error {
	shared := byte(0)
	if m == Shared {
		shared = 1
	}
	_, err := c.send(cmdSysSet, unix.NLM_F_ACK, netlink.Append(nil, attrNetnsMode, []byte{shared}))
	switch {
	case errors.Is(err, unix.EBUSY):
		return ErrBusy
	case errors.Is(err, unix.EINVAL):
		return hint.With(errors.New("the kernel has no RDMA netns modes"), "GN224 take kernel 5.5 or later")
	}
	return err
}

// Device is an RDMA device of the namespace. Index is the kernel's number for
// it, which it keeps through moves and until its driver lets it go.
type Device struct {
	Index uint32
	Name  string
	GUID  string // node GUID as sysfs writes it

	// Sub says that it is a part of another RDMA device, whose GUID and place it has, as the SMI device
	// of a ConnectX-8 is one (since kernel 6.11). Parent is the other one's name.
	Sub    bool
	Parent string
}

// Dump lists the namespace's RDMA devices (in shared mode: the node's) as the
// kernel dumps them. What it lists is there, but it may lack a device: the
// kernel goes on by position after each (device.c:ib_enum_all_devs), so one
// that another job's move takes out hides its neighbour, without a sign.
func (c *Conn) Dump() ([]Device, error) {
	answers, err := c.send(cmdGet, unix.NLM_F_DUMP, nil)
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	return devicesIn(answers), nil
}

// Devices lists the namespace's RDMA devices and misses none.
func (c *Conn) Devices() ([]Device, error) {
	answers, err := c.all(cmdGet)
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	return devicesIn(answers), nil
}

// all returns the answers about all of the namespace's RDMA devices, one of each, and misses none. Two dumps of the same
// devices lack none: what hides its neighbour is in the dump, and is gone from the next. Where devices come and go, what
// a dump lacks is asked for by its index, which the kernel deals in turn (device.c:assign_name, xa_alloc_cyclic).
func (c *Conn) all(cmd int) ([]netlink.Attributes, error) {
	const spare = 128 // indices beyond the highest one seen
	before, err := c.send(cmd, unix.NLM_F_DUMP, nil)
	if err != nil {
		return nil, err
	}
	answers, err := c.send(cmd, unix.NLM_F_DUMP, nil)
	if err != nil || slices.EqualFunc(answers, before, sameDevice) {
		return answers, err
	}
	seen := map[uint32]bool{}
	highest := uint32(0)
	for _, a := range answers {
		seen[indexIn(a)] = true
		highest = max(highest, indexIn(a))
	}
	for i := range highest + spare {
		if seen[i] {
			continue
		}
		one, err := c.send(cmd, 0, ofDevice(i))
		if errors.Is(err, unix.EINVAL) {
			continue // nldev.c:nldev_get_doit: not there, or not in this namespace
		}
		if err != nil {
			return nil, fmt.Errorf("ask for RDMA device %d: %w", i, err)
		}
		answers = append(answers, one...)
	}
	return answers, nil
}

func indexIn(a netlink.Attributes) uint32     { return uint32(a.Number(attrDevIndex)) }
func sameDevice(a, b netlink.Attributes) bool { return indexIn(a) == indexIn(b) }

// At returns the namespace's RDMA device with an index; none if it has none there.
func (c *Conn) At(index uint32) ([]Device, error) {
	answers, err := c.send(cmdGet, 0, ofDevice(index))
	if errors.Is(err, unix.EINVAL) {
		return nil, nil // nldev.c:nldev_get_doit: not there, or not in this namespace
	}
	if err != nil {
		return nil, fmt.Errorf("read RDMA device %d: %w", index, err)
	}
	return devicesIn(answers), nil
}

func devicesIn(answers []netlink.Attributes) []Device {
	devices := make([]Device, 0, len(answers))
	for _, a := range answers {
		devices = append(devices, Device{
			Index:  indexIn(a),
			Name:   a.Text(attrDevName),
			GUID:   formatGUID(a.Value(attrNodeGUID)),
			Sub:    a.Value(attrDevType) != nil || a.Value(attrParentName) != nil,
			Parent: a.Text(attrParentName),
		})
	}
	return devices
}

// Port is one port of an RDMA device. Interface is the index of its network
// interface in the namespace that was asked, 0 if it has none there.
type Port struct {
	Num       uint32
	State     string
	Interface int
}

// Ports lists a device's ports.
func (c *Conn) Ports(index uint32) ([]Port, error) {
	answers, err := c.send(cmdPortGet, unix.NLM_F_DUMP, ofDevice(index))
	if err != nil {
		return nil, fmt.Errorf("list the ports of RDMA device %d: %w", index, err)
	}
	ports := make([]Port, 0, len(answers))
	for _, a := range answers {
		ports = append(ports, Port{
			Num:       uint32(a.Number(attrPortIndex)),
			State:     portState(byte(a.Number(attrPortState))),
			Interface: int(a.Number(attrNdevIndex)),
		})
	}
	return ports, nil
}

// CharDevice is the device number behind /dev/infiniband/uverbsN and the
// kernel's number for the driver (enum rdma_driver_id).
type CharDevice struct {
	Major, Minor uint32
	Driver       uint64
}

// Uverbs finds the device's uverbs character device, whatever its number is
// now. A device without one is ErrNoCharDevice.
func (c *Conn) Uverbs(index uint32) (CharDevice, error) {
	return c.charDevice("uverbs", ofDevice(index))
}

// Umad finds the umad character device of a device's port, or is ErrNoCharDevice.
func (c *Conn) Umad(index, port uint32) (CharDevice, error) {
	return c.charDevice("umad", netlink.AppendUint32(ofDevice(index), attrPortIndex, port))
}

func (c *Conn) charDevice(kind string, of []byte) (CharDevice, error) {
	answers, err := c.send(cmdGetCharDev, 0, netlink.AppendText(of, attrCharDevType, kind))
	// nldev.c:nldev_get_chardev, device.c:ib_get_client_nl_info: no such client, or
	// none of its data on this device.
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
		return CharDevice{}, ErrNoCharDevice
	}
	if err != nil {
		return CharDevice{}, fmt.Errorf("find the %s device: %w", kind, err)
	}
	for _, a := range answers {
		if v := a.Value(attrCharDev); len(v) == 8 {
			// huge_encode_dev (include/linux/kdev_t.h) is new_encode_dev in 64 bits.
			dev := native.Uint64(v)
			return CharDevice{
				Major:  uint32(dev>>8) & 0xfff,
				Minor:  uint32(dev&0xff) | uint32(dev>>12)&^0xff,
				Driver: a.Number(attrDriverID),
			}, nil
		}
	}
	return CharDevice{}, ErrNoCharDevice
}

// MoveRequest returns what takes a device to the namespace behind a file descriptor;
// package detach sends it. The sending thread must
// be in the namespace that has the device now: the kernel looks at the thread
// and at the socket (device.c:ib_device_set_netns_put).
//
// With a name the device has that one there, where another has its own; kernels of which
// a move is never ErrNameTaken do not take it.
//
// The request returns when every kernel client has let go of the device and
// taken it up again; nothing bounds that time, and nothing can interrupt it.
func (c *Conn) MoveRequest(index uint32, nsfd int, name string) []byte {
	m := netlink.AppendUint32(ofDevice(index), attrNetnsFD, uint32(nsfd))
	if name != "" {
		m = netlink.AppendText(m, attrDevName, name)
	}
	return c.socket.Request(clientNldev<<10|cmdSet, unix.NLM_F_ACK, m)
}

// FD returns the connection's socket.
func (c *Conn) FD() int { return c.socket.FD() }

// Rename gives a device another name.
func (c *Conn) Rename(index uint32, name string) error {
	_, err := c.send(cmdSet, unix.NLM_F_ACK, netlink.AppendText(ofDevice(index), attrDevName, name))
	return Named(err)
}

// send does one request and returns the attributes of each answer.
func (c *Conn) send(cmd, flags int, attributes []byte) ([]netlink.Attributes, error) {
	messages, err := c.socket.Do(clientNldev<<10|cmd, flags, 0, attributes)
	if err != nil {
		return nil, err
	}
	answers := make([]netlink.Attributes, 0, len(messages))
	for _, m := range messages {
		a, err := netlink.Parse(m)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

var native = binary.NativeEndian

// ofDevice returns the attribute that says which device a request is about.
func ofDevice(index uint32) []byte { return netlink.AppendUint32(nil, attrDevIndex, index) }

// formatGUID writes a GUID as sysfs does. The kernel sends the number that it
// reads big endian out of the device (nldev.c:fill_dev_info, be64_to_cpu).
func formatGUID(v []byte) string {
	if len(v) != 8 {
		return ""
	}
	n := native.Uint64(v)
	return fmt.Sprintf("%04x:%04x:%04x:%04x", n>>48, n>>32&0xffff, n>>16&0xffff, n&0xffff)
}

// portState names enum ib_port_state.
func portState(s byte) string {
	names := [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", s)
}
