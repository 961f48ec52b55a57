package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/link"
)

// Port is a port of an HCA with its network interface, if that is in the namespace.
type Port struct {
	Num       uint32
	LinkLayer string
	State     string
	Interface *link.Interface
}

// Ports reads an HCA's ports. The view's /sys must show this namespace.
func (v *View) Ports(d Device) ([]Port, error) {
	list, err := v.ports(d.Index)
	if err != nil {
		return nil, err
	}
	return v.withInterfaces(d, list, v.Link.Listed)
}

// withInterfaces completes the ports of an HCA that were listed.
func (v *View) withInterfaces(d Device, list []rdma.Port, get func(index int) (link.Interface, error)) ([]Port, error) {
	ports := make([]Port, 0, len(list))
	for _, p := range list {
		port, err := v.port(d, p, get)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// ports lists the ports of an RDMA device.
func (v *View) ports(index uint32) ([]rdma.Port, error) {
	return link.Remembered(v.Link.Conn, fmt.Sprint("ports of RDMA device ", index), func() ([]rdma.Port, error) { return v.rdma.Ports(index) })
}

func (v *View) port(d Device, p rdma.Port, get func(index int) (link.Interface, error)) (Port, error) {
	out := Port{Num: p.Num, State: p.State}
	var err error
	if out.LinkLayer, err = sysfs.LinkLayer(v.sys, d.Name, p.Num); err != nil {
		return Port{}, err
	}
	if out.LinkLayer == "InfiniBand" {
		out.Interface, err = v.ipoib(d, p.Num)
	} else if p.Interface != 0 {
		out.Interface, err = v.ethernet(p.Interface, get)
	}
	return out, err
}

// Signal is whether a port has a link, and how fast that is.
type Signal struct {
	Num   uint32 `json:"num"`
	State string `json:"state"`          // ACTIVE, DOWN, …
	Rate  string `json:"rate,omitempty"` // as the kernel prints it, "100 Gb/sec (4X EDR)"; empty if it does not
}

// Signals reads what links an HCA's ports have. The view's /sys must show this namespace.
func (v *View) Signals(d Device) ([]Signal, error) {
	list, err := v.rdma.Ports(d.Index)
	if err != nil {
		return nil, err
	}
	signals := make([]Signal, 0, len(list))
	for _, p := range list {
		signals = append(signals, v.signal(d, p.Num, p.State))
	}
	return signals, nil
}

// SignalsOf completes what the ports of an HCA, which were just read, have for links.
func (v *View) SignalsOf(d Device, ports []Port) (signals []Signal) {
	for _, p := range ports {
		signals = append(signals, v.signal(d, p.Num, p.State))
	}
	return signals
}

func (v *View) signal(d Device, port uint32, state string) Signal {
	rate, err := sysfs.Rate(v.sys, d.Name, port)
	if err != nil {
		rate = "" // of a port without a link a driver may not say a width (sysfs.c:rate_show)
	}
	return Signal{port, state, rate}
}

// Folder returns the path of an RDMA device's folder in the view's /sys, which must show this
// namespace; empty if a test made that up.
func (v *View) Folder(rdma string) string {
	if sys, is := v.sys.(interface{ Folder(string) string }); is {
		return sys.Folder(rdma)
	}
	return ""
}

// RoCEv2 returns a port's GIDs for RoCE v2 that are addresses of its network
// interface, which need not be in the namespace.
func (v *View) RoCEv2(d Device, port uint32, netdev string) ([]sysfs.Entry, error) {
	return sysfs.RoCEv2(v.sys, d.Name, port, netdev)
}

// PKeys returns a port's table of P_Keys.
func (v *View) PKeys(d Device, port uint32) ([]node.PKey, error) {
	return sysfs.PKeys(v.sys, d.Name, port)
}

// GIDTable says how many GIDs a port can have.
func (v *View) GIDTable(d Device, port uint32) (sysfs.GIDTable, error) {
	return sysfs.ReadGIDTable(v.sys, d.Name, port)
}

// MissingGIDs returns those of the wanted GIDs that a port does not have now.
func (v *View) MissingGIDs(d Device, port uint32, want []netip.Addr) ([]netip.Addr, error) {
	return sysfs.MissingGIDs(v.sys, d.Name, port, want)
}

// ipoib finds the interface whose hardware address ends in the port's GUID, and that stands on
// the device's own function: VFs that were never given a GUID all have that of zeros.
func (v *View) ipoib(d Device, port uint32) (*link.Interface, error) {
	guid, err := sysfs.PortGUID(v.sys, d.Name, port)
	if err != nil {
		return nil, fmt.Errorf("read the GUID of %s port %d: %w", d.Name, port, err)
	}
	list, err := v.Link.List()
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		if i.IsPort(guid) && i.ID.StandsOn(d.bare().PCI()) {
			v.known.interfaces[i.ID] = i.Index
			return &i, nil
		}
	}
	return nil, nil
}

func (v *View) ethernet(index int, get func(int) (link.Interface, error)) (*link.Interface, error) {
	i, err := get(index)
	if errors.Is(err, link.ErrNotFound) {
		return nil, nil
	}
	v.known.interfaces[i.ID] = i.Index
	return &i, err
}

// bare describes a device without its ports.
func (d Device) bare() node.HCA {
	return node.HCA{ID: d.ID, Name: d.Name, Driver: d.Driver, GUID: d.GUID, Function: d.Function}
}

// HCA describes a device in the words of package node.
func (d Device) HCA(ports []Port) node.HCA {
	h := d.bare()
	for _, p := range ports {
		port := node.Port{Num: p.Num, LinkLayer: p.LinkLayer, State: p.State}
		if p.Interface != nil {
			port.Interface = p.Interface.Name
		}
		h.Ports = append(h.Ports, port)
	}
	return h
}

// portsNow asks for the ports also within Once: others move interfaces meanwhile.
func (v *View) portsNow(d Device) ([]Port, error) {
	list, err := v.rdma.Ports(d.Index)
	if err != nil {
		return nil, err
	}
	return v.withInterfaces(d, list, v.Link.Get)
}

// HCAOf returns the HCA that has an interface of the node, the zero ID if none has.
func (v *View) HCAOf(id link.ID) (node.ID, error) {
	devices, err := v.Devices()
	if errors.Is(err, rdma.ErrNoRDMA) {
		return node.ID{}, nil
	}
	if err != nil {
		return node.ID{}, err
	}
	for _, d := range devices {
		ports, err := v.portsNow(d)
		if errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) || err != nil && v.left(d.Index) {
			continue // it is on its way
		}
		if err != nil {
			return node.ID{}, err
		}
		if slices.ContainsFunc(ports, func(p Port) bool { return p.Interface != nil && p.Interface.ID == id }) {
			return d.ID, nil
		}
	}
	return node.ID{}, nil
}
