package sriov

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
)

// Representor is how the representor of a VF that a job has was set before, and how the job wants it. None is nil.
type Representor struct {
	Name string `json:"name"` // for people
	Had  Port   `json:"had"`
	Want Port   `json:"want"`
}

// Sets says in which VLAN the job's VF is; empty: in none.
func (r *Representor) Sets() string {
	if r == nil {
		return ""
	}
	return r.Want.String()
}

// Do has the representor be as the job wants it.
func (r *Representor) Do(ctx context.Context, sys fs.FS, vf node.ID) error {
	if r == nil {
		return nil
	}
	return r.Want.set(ctx, sys, vf)
}

// Undo has it be as it was, if the node has it still. Open vSwitch keeps the port of one that is gone, and has that as
// it was.
func (r *Representor) Undo(ctx context.Context, sys fs.FS, vf node.ID, say func(format string, a ...any)) error {
	if r == nil {
		return nil
	}
	had, err := r.Had, error(nil)
	if had.OVS != nil {
		there := false
		if there, err = had.OVS.isThere(ctx); err == nil && !there {
			say("port %s of Open vSwitch is gone, or was made again: its VLANs stay as they are", r.Name)
		}
		if !there {
			had.OVS = nil
		}
	}
	setErr := had.set(ctx, sys, vf)
	if errors.Is(setErr, ErrNoRepresentor) {
		setErr = nil
		if had.OVS != nil {
			setErr = had.OVS.set(ctx)
		}
	}
	return hint.Join(err, setErr)
}

func (p Port) set(ctx context.Context, sys fs.FS, vf node.ID) error {
	rep, err := FindRepresentor(sys, vf)
	if err != nil {
		return err
	}
	return p.Apply(ctx, rep)
}

// Port is how a VF's representor is set. In switchdev mode each VF has one on the node: what the VF sends arrives
// there, and what is sent there arrives at the VF.
type Port struct {
	Up     bool       `json:"up"`
	Bridge int        `json:"bridge,omitempty"` // the index of the Linux bridge that it is a port of; 0: no VLANs are set
	VLANs  []PortVLAN `json:"vlans,omitempty"`  // of that port
	OVS    *OVSPort   `json:"ovs,omitempty"`    // nil: it is none of Open vSwitch, or no VLANs are set
}

// PortVLAN is a VLAN of a bridge's port.
type PortVLAN struct {
	ID       uint16 `json:"id"`
	PVID     bool   `json:"pvid,omitempty"`     // what comes in without a VLAN is in this one
	Untagged bool   `json:"untagged,omitempty"` // what goes out of it has no VLAN
}

// In returns the port up, and in one VLAN alone, which the VF does not see.
func (p Port) In(vlan int) Port {
	if p.OVS != nil {
		return Port{Up: true, OVS: p.OVS.in(vlan)}
	}
	return Port{Up: true, Bridge: p.Bridge, VLANs: []PortVLAN{{ID: uint16(vlan), PVID: true, Untagged: true}}}
}

// String lists the VLANs.
func (p Port) String() string {
	var said []string
	if p.OVS != nil {
		said = append(said, fmt.Sprint("tag ", list(p.OVS.Tag)))
	}
	for _, v := range p.VLANs {
		text := fmt.Sprint("vlan ", v.ID)
		if v.PVID {
			text += " pvid"
		}
		if v.Untagged {
			text += " untagged"
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}

// representors have such names of ports (devlink-port(8)): pf0vf3, and c1pf0vf3 for a host beside a DPU.
// Most runs look for none.
var representors = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:c\d+)?pf\d+(?:vf|sf)\d+$`) })

// isRepresentor tells whether an interface is a VF's or a scalable function's representor.
func isRepresentor(sys fs.FS, dir string) bool {
	return representors().MatchString(word(sys, dir, "phys_port_name"))
}

// word returns the text of an interface's file, empty if its driver has none (EOPNOTSUPP).
func word(sys fs.FS, dir, file string) string {
	text, err := fs.ReadFile(sys, path.Join(dir, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// ErrNoRepresentor means that a VF has no representor on the node. No program that is missing is this error.
var ErrNoRepresentor = errors.New("no representor on the node")

// FindRepresentor finds the representor of a VF on the node. Without one it is ErrNoRepresentor.
func FindRepresentor(sys fs.FS, vf node.ID) (Link, error) {
	none := fmt.Errorf("find the representor of VF %s of %s: %w", vf.VF, vf.PCI, ErrNoRepresentor)
	uplink, err := FindLink(sys, vf.PCI)
	if errors.Is(err, ErrNoLink) {
		return Link{}, none
	}
	if err != nil {
		return Link{}, err
	}
	const class = "class/net"
	id := word(sys, path.Join(class, uplink.Name), "phys_switch_id")
	entries, err := fs.ReadDir(sys, class)
	if err != nil {
		return Link{}, fmt.Errorf("find the representor of VF %s of %s: %w", vf.VF, vf.PCI, err)
	}
	_, function, _ := strings.Cut(vf.PCI, ".")
	port := regexp.MustCompile(`^(?:c\d+)?pf` + function + "vf" + vf.VF + "$")
	for _, e := range entries {
		dir := path.Join(class, e.Name())
		if id == "" || word(sys, dir, "phys_switch_id") != id || !port.MatchString(word(sys, dir, "phys_port_name")) {
			continue
		}
		if index, err := number(sys, path.Join(dir, "ifindex")); err == nil {
			return Link{Name: e.Name(), Index: index}, nil
		}
	}
	return Link{}, none
}

// ReadPort reads how a representor is set, and the VLANs of its port if they are wanted: see Takes.
func ReadPort(rep Link, vlans bool) (Port, error) {
	l, err := linkOf(rep)
	if err != nil {
		return Port{}, err
	}
	p := Port{Up: l.Attrs().Flags&net.FlagUp != 0}
	if !vlans {
		return p, nil
	}
	p.Bridge = l.Attrs().MasterIndex
	p.VLANs, err = vlansOf(rep)
	return p, err
}

func linkOf(rep Link) (netlink.Link, error) {
	l, err := netlink.LinkByIndex(rep.Index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		err = ErrNoRepresentor
	}
	if err != nil {
		return nil, fmt.Errorf("look at representor %s: %w", rep.Name, err)
	}
	return l, nil
}

// Takes returns an error for a representor that cannot come up for a job, and be as it was after it. If VLANs are
// wanted it must be a port of a Linux bridge that filters them, or of Open vSwitch: then it returns that port.
func Takes(ctx context.Context, rep Link, vlans bool) (*OVSPort, error) {
	l, err := linkOf(rep)
	if err != nil {
		return nil, err
	}
	if l.Attrs().Flags&net.FlagUp == 0 {
		// addrconf.c:addrconf_ifdown
		addresses, err := netlink.AddrList(l, netlink.FAMILY_V6)
		if err != nil {
			return nil, fmt.Errorf("look at the addresses of representor %s: %w", rep.Name, err)
		}
		if len(addresses) > 0 {
			err := fmt.Errorf("representor %s is down and has IPv6 addresses, which it would lose when it goes down after the job", rep.Name)
			return nil, hint.With(err, "GN730 ip link set REPRESENTOR up, before jobs come")
		}
	}
	if vlans {
		return takesVLANs(ctx, rep, l)
	}
	return nil, nil
}

func takesVLANs(ctx context.Context, rep Link, l netlink.Link) (*OVSPort, error) {
	const do = "GN726 ip link set REPRESENTOR master BRIDGE, a bridge with vlan_filtering 1, before jobs come; or leave vlan out of vf"
	if l.Attrs().MasterIndex == 0 {
		return nil, hint.With(fmt.Errorf("representor %s is a port of no bridge, which would have VLANs", rep.Name), do)
	}
	master, err := netlink.LinkByIndex(l.Attrs().MasterIndex)
	if err != nil {
		return nil, fmt.Errorf("look at the bridge of representor %s: %w", rep.Name, err)
	}
	if master.Type() == "openvswitch" { // of the kernel's datapath; that of user space has no master
		return findOVSPort(ctx, rep)
	}
	bridge, is := master.(*netlink.Bridge)
	if !is {
		err := fmt.Errorf("representor %s is a port of %s (%s), and VLANs are set on Linux bridges and Open vSwitch alone", rep.Name, master.Attrs().Name, master.Type())
		return nil, hint.With(err, "GN727 leave vlan out of vf")
	}
	if bridge.VlanFiltering == nil || !*bridge.VlanFiltering {
		return nil, hint.With(fmt.Errorf("representor %s is a port of %s, which filters no VLANs", rep.Name, bridge.Name), do)
	}
	port, err := netlink.LinkGetProtinfo(l)
	if err != nil {
		return nil, fmt.Errorf("look at the port of representor %s: %w", rep.Name, err)
	}
	if port.VlanTunnel {
		return nil, hint.With(fmt.Errorf("the VLANs of representor %s have tunnels, which gresnet could not put back", rep.Name), "GN729 leave vlan out of vf, or: bridge link set dev REPRESENTOR vlan_tunnel off")
	}
	return nil, haveDefaults(rep)
}

// haveDefaults returns an error if a VLAN of a representor's port has settings of its own (br_vlan_options.c), which end
// when the port leaves the VLAN.
func haveDefaults(rep Link) error {
	request := nl.NewNetlinkRequest(unix.RTM_GETVLAN, unix.NLM_F_DUMP)
	request.AddData(vlansOfPort(rep.Index))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWVLAN)
	if err != nil {
		return fmt.Errorf("read the settings of the VLANs of representor %s: %w", rep.Name, err)
	}
	for _, m := range messages {
		entries, err := nl.ParseRouteAttr(m[vlansOfPort(0).Len():])
		if err != nil {
			return err
		}
		for _, e := range entries {
			settings, err := nl.ParseRouteAttr(e.Value)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(settings, isSet) {
				err := fmt.Errorf("a VLAN of representor %s has settings of its own, which gresnet could not put back", rep.Name)
				return hint.With(err, "GN728 see `bridge -d vlan show`; leave vlan out of vf, or take the settings back")
			}
		}
	}
	return nil
}

// isSet tells whether a setting of a VLAN (BRIDGE_VLANDB_ENTRY_*) is not what a new VLAN has.
func isSet(a syscall.NetlinkRouteAttr) bool {
	const state, router, maxGroups, suppress = 3, 6, 8, 9
	value := slices.Max(append(slices.Clone(a.Value), 0)) // all of these are small numbers
	switch a.Attr.Type {
	case state:
		return value != 3 // BR_STATE_FORWARDING
	case router:
		return value != 1 // MDB_RTR_TYPE_TEMP_QUERY
	case maxGroups, suppress:
		return value != 0
	}
	return false
}

// vlansOfPort asks for the VLANs of a port by its index (struct br_vlan_msg).
type vlansOfPort int

func (vlansOfPort) Len() int { return 8 }

func (p vlansOfPort) Serialize() []byte {
	return binary.NativeEndian.AppendUint32([]byte{unix.AF_BRIDGE, 0, 0, 0}, uint32(p))
}

// vlansOf returns the VLANs of a representor's port, in their order.
func vlansOf(rep Link) (list []PortVLAN, err error) {
	for try := 1; ; try++ {
		all, err := netlink.BridgeVlanList()
		if errors.Is(err, netlink.ErrDumpInterrupted) && poll.Again(try) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the VLANs of representor %s: %w", rep.Name, err)
		}
		for _, v := range all[int32(rep.Index)] {
			list = append(list, PortVLAN{v.Vid, v.PortVID(), v.EngressUntag()})
		}
		slices.SortFunc(list, func(a, b PortVLAN) int { return int(a.ID) - int(b.ID) })
		return list, nil
	}
}

// Apply sets a representor. It comes up after it has its VLANs, and goes down before they change. One that somebody has
// put onto another bridge since has lost the VLANs by that.
func (p Port) Apply(ctx context.Context, rep Link) error {
	todo, err := p.actions(ctx, rep)
	if err != nil {
		return err
	}
	for _, do := range todo {
		if err := do(); err != nil {
			return err
		}
	}
	l, err := linkOf(rep)
	if err != nil || !p.isPort(l) {
		return err
	}
	now, err := vlansOf(rep)
	if err == nil && !slices.Equal(now, p.VLANs) {
		err = fmt.Errorf("set the VLANs of representor %s: they are %q, wanted %q", rep.Name, Port{VLANs: now}, p)
	}
	return err
}

// isPort tells whether a representor is on the bridge whose VLANs are wanted.
func (p Port) isPort(l netlink.Link) bool { return p.Bridge != 0 && l.Attrs().MasterIndex == p.Bridge }

// actions returns the requests that set a representor, in order: none if it is set so already.
func (p Port) actions(ctx context.Context, rep Link) (todo []func() error, err error) {
	l, err := linkOf(rep)
	if err != nil {
		return nil, err
	}
	up := l.Attrs().Flags&net.FlagUp != 0
	if up && !p.Up {
		todo = append(todo, func() error { return named("set down", rep, netlink.LinkSetDown(l)) })
	}
	if p.isPort(l) {
		now, err := vlansOf(rep)
		if err != nil {
			return nil, err
		}
		todo = append(todo, p.retag(rep, l, now)...)
	}
	if p.OVS != nil {
		todo = append(todo, func() error { return named("set the VLANs of", rep, p.OVS.set(ctx)) })
	}
	if p.Up && !up {
		todo = append(todo, func() error { return named("set up", rep, netlink.LinkSetUp(l)) })
	}
	return todo, nil
}

// retag takes the port out of the VLANs that it is not to be in, and puts it into the others.
func (p Port) retag(rep Link, l netlink.Link, now []PortVLAN) (todo []func() error) {
	for _, v := range now {
		if !slices.Contains(p.VLANs, v) {
			todo = append(todo, func() error {
				return named(fmt.Sprintf("take out of vlan %d", v.ID), rep, netlink.BridgeVlanDel(l, v.ID, v.PVID, v.Untagged, false, true))
			})
		}
	}
	for _, v := range p.VLANs {
		if !slices.Contains(now, v) {
			todo = append(todo, func() error {
				return named(fmt.Sprintf("put into vlan %d", v.ID), rep, netlink.BridgeVlanAdd(l, v.ID, v.PVID, v.Untagged, false, true))
			})
		}
	}
	return todo
}

func named(action string, rep Link, err error) error {
	if err != nil {
		err = fmt.Errorf("%s representor %s: %w", action, rep.Name, err)
	}
	return err
}
