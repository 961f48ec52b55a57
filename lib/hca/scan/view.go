// Package scan looks at the HCAs of one network namespace: what identifies
// them, their ports, network interfaces and character devices. It puts
// together what netlink and /sys each know a part of, and changes nothing.
// By the kernel's lists it also says which processes of users use them.
package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
)

// ErrNotFound means that the namespace does not have the HCA.
var ErrNotFound = errors.New("no such HCA")

// View looks at the network namespace of the thread that opened it, and is
// for that thread alone.
type View struct {
	Link  *snapshot.Conn
	sys   fs.FS
	rdma  *rdma.Conn // dialed when it is first needed: not every look needs it
	known *Known
}

// Known is where things were when they were last seen, in whatever namespace:
// a move keeps the index of an RDMA device always, and of a network interface
// if it is free. A look begins there instead of listing all that the node has.
type Known struct {
	// Budget bounds what is waited for; nil: nothing does.
	Budget *poll.Budget

	devices    map[string][]uint32 // indices by GUID
	parts      map[node.ID]uint32  // indices of parts that are RDMA devices of their own
	interfaces map[link.ID]int
}

// NewKnown knows nothing yet.
func NewKnown() *Known {
	return &Known{devices: map[string][]uint32{}, parts: map[node.ID]uint32{}, interfaces: map[link.ID]int{}}
}

// Open opens a view of the calling thread's network namespace. sys is a /sys;
// only the ports' GIDs and link layers need one that shows this namespace.
// Views that are used one at a time may share what they know.
func Open(sys fs.FS, known *Known) (*View, error) {
	l, err := snapshot.Dial()
	if err != nil {
		return nil, err
	}
	l.Budget = known.Budget
	return &View{Link: l, sys: sys, known: known}, nil
}

// With returns the view with another /sys. It uses the same connections: only one of
// the two is to be closed.
func (v *View) With(sys fs.FS) (*View, error) {
	if err := v.dial(); err != nil {
		return nil, err
	}
	other := *v
	other.sys = sys
	return &other, nil
}

// Close closes the view's connections.
func (v *View) Close() {
	if v.rdma != nil {
		v.rdma.Close()
	}
	v.Link.Close()
}

func (v *View) dial() (err error) {
	if v.rdma == nil {
		v.rdma, err = rdma.Dial()
	}
	return err
}

// Mode returns the node's RDMA netns mode.
func (v *View) Mode() (rdma.Mode, error) {
	if err := v.dial(); err != nil {
		return "", fmt.Errorf("read the RDMA netns mode: %w", err)
	}
	return v.rdma.Mode()
}

// SetMode changes the node's RDMA netns mode.
func (v *View) SetMode(m rdma.Mode) error {
	if err := v.dial(); err != nil {
		return err
	}
	return v.rdma.SetMode(m)
}

// ErrShared means that RDMA devices cannot be moved, since all namespaces share them.
var ErrShared = errors.New("the RDMA netns mode is shared")

// Move is a move of a device, which keeps its name or is given another.
type Move struct {
	Device Device
	Name   string
	Lock   *os.File
}

// ErrNotBegun is of a move that was not begun, because one before it failed or has not ended.
var ErrNotBegun = detach.ErrNotBegun

// Start starts moves to the namespace behind a file descriptor, one after the other, see package detach. What
// it returns waits for the end of the next one, but not past a deadline; after an error no more begin.
func (v *View) Start(nsfd int, moves ...Move) (next func(deadline time.Time) error, err error) {
	// A connection of its own: the answers are the mover's, and no other reader may take them.
	conn, err := rdma.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var orders []detach.Order
	for _, m := range moves {
		orders = append(orders, detach.Order{Request: conn.MoveRequest(m.Device.Index, nsfd, m.Name), Lock: m.Lock})
	}
	started, err := detach.StartMoves(conn.FD(), nsfd, orders)
	if err != nil {
		return nil, err
	}
	return func(deadline time.Time) error {
		err := started.Next(deadline)
		if errors.Is(err, errors.ErrUnsupported) { // EOPNOTSUPP, device.c:ib_device_set_netns_put
			if mode, _ := v.Mode(); mode == rdma.Shared {
				return ErrShared
			}
			return hint.With(fmt.Errorf("its driver cannot be moved: %w", err), "GN710 use shared mode")
		}
		return rdma.Named(err)
	}, nil
}

// Rename gives a device another name. Within Once, later looks see it.
func (v *View) Rename(d Device, name string) error {
	defer v.Link.LookAgain()
	return v.rdma.Rename(d.Index, name)
}

// Device is an HCA with what changes when it is moved: good until then.
type Device struct {
	ID     node.ID
	Index  uint32 // of the RDMA device
	Name   string // of the RDMA device
	Driver string
	Chars  []Char

	GUID, Function string // of a VF, as node.HCA has them
}

// Char is one of an HCA's character devices.
type Char struct {
	Kind         string // uverbs, umad, issm or hfi1
	Port         uint32 // 0 for uverbs and hfi1, which serve all ports
	Name         string // uverbs3
	Major, Minor uint32
}

// Devices lists the namespace's HCAs in the order in which they are numbered.
func (v *View) Devices() ([]Device, error) {
	if err := v.dial(); err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	list, err := v.rdma.Devices()
	if err != nil {
		return nil, err
	}
	v.known.remember(list)
	devices := make([]Device, 0, len(list))
	for _, d := range list {
		if d.Sub {
			continue
		}
		device, err := v.retryLookup(d)
		if errors.Is(err, ErrNotFound) {
			continue // another job's prolog took it meanwhile
		}
		if err != nil {
			return nil, err
		}
		devices = append(devices, device)
	}
	slices.SortFunc(devices, func(a, b Device) int { return node.Compare(a.ID, b.ID) })
	return devices, nil
}

// Find finds an HCA by its identity, or by that of a slot of it, or is ErrNotFound: then it is not there. Within Once
// it looks for each HCA once.
func (v *View) Find(id node.ID) (Device, error) {
	id = id.Whole()
	return link.Remembered(v.Link.Conn, "HCA "+id.String(), func() (Device, error) { return v.find(id) })
}

func (v *View) find(id node.ID) (Device, error) {
	d, err := v.Glance(id)
	if !errors.Is(err, ErrNotFound) {
		return d, err
	}
	list, err := v.rdma.Devices()
	if err != nil {
		return Device{}, err
	}
	return v.pick(list, id)
}

// Glance is Find for one who has elsewhere to look: what it finds is there, but
// what it does not find may be there nevertheless, see rdma.Conn.Dump.
func (v *View) Glance(id node.ID) (Device, error) {
	id = id.Whole()
	if err := v.dial(); err != nil {
		return Device{}, fmt.Errorf("find HCA %s: %w", id, err)
	}
	for _, index := range v.known.indices(id) {
		list, err := v.rdma.At(index)
		if err != nil {
			return Device{}, err
		}
		if d, err := v.pick(list, id); !errors.Is(err, ErrNotFound) {
			return d, err
		}
	}
	list, err := v.rdma.Dump()
	if err != nil {
		return Device{}, err
	}
	v.known.remember(list)
	return v.pick(list, id)
}

// indices returns where a device was when it was last seen.
func (k *Known) indices(id node.ID) []uint32 {
	if index, seen := k.parts[id]; seen {
		return []uint32{index}
	}
	return k.devices[id.GUID]
}

// remember keeps where devices are. More than one may have a GUID: ports of one chip.
func (k *Known) remember(list []rdma.Device) {
	for _, d := range list {
		if !slices.Contains(k.devices[d.GUID], d.Index) {
			k.devices[d.GUID] = append(k.devices[d.GUID], d.Index)
		}
	}
}

// pick looks more closely at those that have the GUID; for a part that is an RDMA device of its own at all, since
// a VF's GUID changes. A sub-device has the HCA's GUID and place, and is none.
func (v *View) pick(list []rdma.Device, id node.ID) (Device, error) {
	for _, d := range list {
		if d.Sub || !id.Kind().Splits() && d.GUID != id.GUID {
			continue
		}
		device, err := v.retryLookup(d)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return Device{}, err
		}
		if device.ID == id {
			return device, nil
		}
	}
	return Device{}, fmt.Errorf("HCA %s: %w", id, ErrNotFound)
}

// retryLookup returns a device that others may move meanwhile: one that left is
// ErrNotFound, and one that is there again has other character devices and is
// looked at once more.
func (v *View) retryLookup(d rdma.Device) (Device, error) {
	for try := 1; ; try++ {
		device, err := v.device(d)
		if err == nil {
			return device, nil
		}
		err = fmt.Errorf("look at %s: %w", d.Name, err)
		if v.left(d.Index) {
			return Device{}, ErrNotFound
		}
		if !poll.Again(try) {
			return Device{}, err
		}
	}
}

// left tells that a device that was listed is not in the namespace any more.
func (v *View) left(index uint32) bool {
	list, err := v.rdma.At(index)
	return err == nil && len(list) == 0
}

// device completes what netlink says. The place of the hardware comes from
// the uverbs device, which /sys shows wherever the RDMA device is; without one
// (ib_uverbs not loaded) from the class directory.
func (v *View) device(d rdma.Device) (Device, error) {
	out := Device{Index: d.Index, Name: d.Name}
	var place sysfs.BusAddress
	verbs, err := v.rdma.Uverbs(d.Index)
	switch {
	case errors.Is(err, rdma.ErrNoCharDevice):
		if place, err = sysfs.Parent(v.sys, d.Name); err != nil {
			return Device{}, err
		}
	case err != nil:
		return Device{}, err
	default:
		var name string
		if name, place, err = sysfs.Char(v.sys, verbs.Major, verbs.Minor); err != nil {
			return Device{}, err
		}
		out.Driver = rdma.DriverName(verbs.Driver)
		out.Chars = append(out.Chars, Char{Kind: "uverbs", Name: name, Major: verbs.Major, Minor: verbs.Minor})
		if out.Driver == "hfi1" {
			if err := out.addHFI(v.sys); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return Device{}, err
			}
		}
	}
	h, err := sysfs.HCA(v.sys, d.Name, d.GUID, place)
	if err != nil {
		return Device{}, err
	}
	out.ID, out.GUID, out.Function = h.ID, h.GUID, h.Function
	if h.ID.Kind().Splits() {
		v.known.parts[h.ID] = d.Index
	}
	out.Chars = slices.Clip(out.Chars) // whoever adds to a device that others find, too, adds to a list of its own
	return out, nil
}

// addHFI adds the character device that hfi1 makes beside uverbs. It is not found once the RDMA device has
// another name.
func (d *Device) addHFI(sys fs.FS) error {
	major, minor, err := sysfs.HFI(sys, d.Name)
	if err == nil {
		d.Chars = append(d.Chars, Char{Kind: "hfi1", Name: d.Name, Major: major, Minor: minor})
	}
	return err
}

// Interface finds a network interface by its identity, or is link.ErrNotFound.
func (v *View) Interface(id link.ID) (link.Interface, error) {
	if index, ok := v.known.interfaces[id]; ok {
		i, err := v.Link.Listed(index)
		if err == nil && i.ID == id {
			return i, nil
		}
	}
	// A job with many has them looked for one after the other.
	list, err := v.Link.List()
	if err != nil {
		return link.Interface{}, err
	}
	found, err := link.Interface{}, fmt.Errorf("interface %s: %w", id, link.ErrNotFound)
	for _, i := range slices.Backward(list) {
		v.known.interfaces[i.ID] = i.Index
		if i.ID == id {
			found, err = i, nil
		}
	}
	return found, err
}

// Look finds a network interface as Interface does, and returns all that is its own.
func (v *View) Look(id link.ID) (link.Described, error) {
	if index, ok := v.known.interfaces[id]; ok {
		i, err := v.Link.Look(index)
		if err == nil && i.ID == id {
			return i, nil
		}
	}
	i, err := v.Interface(id)
	if err != nil {
		return link.Described{}, err
	}
	return v.Link.Look(i.Index)
}

// Seen returns the index that an interface had when it was last seen.
func (v *View) Seen(id link.ID) (index int, seen bool) {
	index, seen = v.known.interfaces[id]
	return index, seen
}

// partPorts is what the ports of an HCA's parts count from: 1001 is the first port of the first part.
const partPorts = 1000

// MAD completes a device with its umad and issm devices, port by port, and with those of its parts.
func (v *View) MAD(d *Device) error {
	if err := v.addMAD(d, d.Index, 0); err != nil {
		return err
	}
	list := v.rdma.Dump // a device with parts moves nowhere, so a dump has them
	if v.Link.Remembers() {
		list = v.list
	}
	all, err := list()
	if err != nil {
		return err
	}
	for i, part := range partsOf(d.Name, all) {
		if err := v.addMAD(d, part.Index, uint32(i+1)*partPorts); err != nil {
			return err
		}
	}
	return nil
}

// partsOf returns the RDMA devices that are parts of another one (rdma.Device, Sub).
func partsOf(name string, list []rdma.Device) (parts []rdma.Device) {
	for _, o := range list {
		if o.Sub && o.Parent == name {
			parts = append(parts, o)
		}
	}
	return parts
}

// list returns the namespace's RDMA devices.
func (v *View) list() ([]rdma.Device, error) {
	return link.Remembered(v.Link.Conn, "RDMA devices", v.rdma.Devices)
}

// Parts returns the names of a device's parts. They do not move with it, and hold on to it: a move would
// wait for them for ever (drivers/infiniband/core/device.c:ib_add_sub_device, disable_device).
func (v *View) Parts(d Device) (names []string, err error) {
	list, err := v.list()
	for _, p := range partsOf(d.Name, list) {
		names = append(names, p.Name)
	}
	return names, err
}

// addMAD adds the umad and issm devices of an RDMA device, whose ports it counts from a number.
func (v *View) addMAD(d *Device, index, from uint32) error {
	ports, err := v.ports(index)
	if err != nil {
		return err
	}
	for _, p := range ports {
		chars, err := v.mad(index, p.Num, from)
		if err != nil {
			return err
		}
		d.Chars = append(d.Chars, chars...)
	}
	return nil
}

// mad returns the umad and issm devices of a port of an RDMA device, whose ports are counted from a number.
func (v *View) mad(index, port, from uint32) ([]Char, error) {
	umad, err := v.rdma.Umad(index, port)
	if errors.Is(err, rdma.ErrNoCharDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name, _, err := sysfs.Char(v.sys, umad.Major, umad.Minor)
	if err != nil {
		return nil, err
	}
	chars := []Char{{Kind: "umad", Port: from + port, Name: name, Major: umad.Major, Minor: umad.Minor}}
	// Netlink does not tell of issm, whose number is its umad's (user_mad.c:ib_umad_init_port).
	issm := "issm" + strings.TrimPrefix(name, "umad")
	major, minor, err := sysfs.Dev(v.sys, "infiniband_mad", issm)
	if errors.Is(err, fs.ErrNotExist) {
		return chars, nil
	}
	return append(chars, Char{Kind: "issm", Port: from + port, Name: issm, Major: major, Minor: minor}), err
}
