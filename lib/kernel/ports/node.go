package ports

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/bpf"
)

// Settings is what the programs know of a node.
type Settings struct {
	Uplinks   []Uplink     // interfaces by which the node reaches others; by the first one others reach its address
	Locals    []netip.Addr // all addresses of the node
	Services  []int        // the node's ports from 1024 on that jobs reach, beside those below
	Callers   []netip.Prefix
	Denied    []netip.Prefix // where no job sends
	SlurmUser uint32
	Ephemeral Block // of the node's own programs
	Srun      Block // where slurm.conf has each srun listen, or zero
}

// Uplink is an interface by which a node reaches others.
type Uplink struct {
	Index   int
	Address netip.Addr // from which the node sends there
}

// Before is what an interface had before jobs used it.
type Before struct {
	Index       int    `json:"index"`
	Name        string `json:"name"`                  // for people
	Hooks       bool   `json:"hooks,omitempty"`       // it had a clsact
	AcceptLocal bool   `json:"acceptLocal,omitempty"` // or needs none
}

const (
	fromJob  = "from_job"
	toJob    = "to_job"
	fromWire = "from_wire"
	fromOwn  = "from_own"
	ownOut   = "own_out"
)

// hook is a place of a filter.
type hook struct {
	index   int
	parent  uint32 // netlink.HANDLE_MIN_INGRESS or _EGRESS
	program string
}

func (s Settings) hooks(lo int) (all []hook) {
	for _, u := range s.Uplinks {
		all = append(all, hooksOf(u.Index)...)
	}
	return append(all, ofLoopback(lo))
}

func hooksOf(uplink int) []hook {
	return []hook{{uplink, netlink.HANDLE_MIN_INGRESS, fromWire}, {uplink, netlink.HANDLE_MIN_EGRESS, ownOut}}
}

func ofLoopback(lo int) hook { return hook{lo, netlink.HANDLE_MIN_EGRESS, fromOwn} }

// Look returns what the interfaces that Attach changes have. Keep it for Detach.
func Look(s Settings) (all []Before, err error) {
	lo, err := loopback()
	if err != nil {
		return nil, err
	}
	indices := []int{lo}
	for _, u := range s.Uplinks {
		indices = append(indices, u.Index)
	}
	for _, index := range indices {
		i, err := netlink.LinkByIndex(index)
		if err != nil {
			return nil, fmt.Errorf("read interface %d: %w", index, err)
		}
		b := Before{Index: index, Name: i.Attrs().Name, AcceptLocal: true}
		if b.Hooks, err = hasHooks(i); err != nil {
			return nil, err
		}
		if index != lo { // which of them is the first one, another job decides
			value, err := os.ReadFile(acceptLocal(b.Name))
			if err != nil {
				return nil, err
			}
			b.AcceptLocal = strings.TrimSpace(string(value)) != "0"
		}
		all = append(all, b)
	}
	return all, nil
}

// Attach makes the programs judge what goes by the node's interfaces. Call it for each job: it fixes what is gone, as
// filters of an interface that was made again, and tells the programs what the node has by now.
func (n Node) Attach(s Settings) error {
	if len(s.Uplinks) == 0 {
		return errors.New("share out the node's ports: it has no interface by which it reaches others")
	}
	lo, err := loopback()
	if err != nil {
		return err
	}
	hooks := s.hooks(lo)
	for _, h := range hooks {
		if err := alone(h); err != nil {
			return err
		}
	}
	if err := n.lost(hooks); err != nil {
		return err
	}
	if err := n.load(); err != nil {
		return err
	}
	if err := n.tell(s); err != nil {
		return err
	}
	for _, h := range hooks {
		if err := n.attach(h); err != nil {
			return err
		}
	}
	// from_wire drops what the kernel then takes.
	first, err := netlink.LinkByIndex(s.Uplinks[0].Index)
	if err != nil {
		return fmt.Errorf("read interface %d: %w", s.Uplinks[0].Index, err)
	}
	return write(acceptLocal(first.Attrs().Name), "1")
}

// Try returns an error if Attach would not do, for a reason that the interfaces or the BPF file system are.
func (n Node) Try(s Settings) error {
	if err := bpf.CanPin(filepath.Dir(filepath.Dir(n.Pins))); err != nil {
		return err
	}
	lo, err := loopback()
	if err != nil {
		return err
	}
	for _, h := range s.hooks(lo) {
		if err := alone(h); err != nil {
			return err
		}
	}
	for _, u := range s.Uplinks {
		if _, _, err := framing(u.Index); err != nil {
			return err
		}
	}
	return nil
}

// tell tells the programs what the node has.
func (n Node) tell(s Settings) error {
	uplinks, locals, services := map[uint32]uplink{}, map[address]uint8{}, map[uint16]uint8{}
	for _, u := range s.Uplinks {
		header, mtu, err := framing(u.Index)
		if err != nil {
			return err
		}
		uplinks[uint32(u.Index)] = uplink{of(u.Address), header, mtu}
	}
	for _, a := range s.Locals {
		if a.Is4() {
			locals[of(a)] = 1
		}
	}
	for _, p := range s.Services {
		services[uint16(p)] = 1
	}
	err := n.changeNode(func(v *node) {
		v.Uplink = uint32(s.Uplinks[0].Index)
		v.First, v.Last = uint16(s.Ephemeral.First), uint16(s.Ephemeral.Last)
		if len(s.Callers) > 0 { // else slurm.conf is not known for this job
			v.SlurmUser, v.SrunFirst, v.SrunLast = s.SlurmUser, uint16(s.Srun.First), uint16(s.Srun.Last)
		}
	})
	for _, write := range []func() error{
		func() error { return settle(n, "locals", locals) },
		func() error { return settle(n, "services", services) },
		func() error { return add(n, "callers", networks(s.Callers)) },
		func() error { return settle(n, "denied", networks(s.Denied)) },
		func() error { return settle(n, "uplinks", uplinks) },
	} {
		if err == nil {
			err = write()
		}
	}
	return err
}

func networks(all []netip.Prefix) map[network]uint8 {
	list := map[network]uint8{}
	for _, p := range all {
		if p.Addr().Is4() {
			list[networkOf(p)] = 1
		}
	}
	return list
}

// headers has how many bytes a packet from an interface has before the IP header, by the interface's kind. The kernel gives
// InfiniBand's a pseudo header of 20 bytes, beside its own of 4 (ipoib_ib.c:ipoib_ib_handle_rx_wc).
var headers = map[string]uint32{"ether": 14, "infiniband": 24, "none": 0, "ppp": 0, "tunnel": 0, "ipip": 0, "rawip": 0}

// framing returns how long the header of a packet from an interface is, and its MTU.
func framing(index int) (header, mtu uint32, err error) {
	i, err := netlink.LinkByIndex(index)
	if err != nil {
		return 0, 0, fmt.Errorf("read interface %d: %w", index, err)
	}
	bytes, known := headers[i.Attrs().EncapType]
	if !known {
		err := fmt.Errorf("share out the node's ports: packets of %s have headers of the kind %s, which gresnet does not know", i.Attrs().Name, i.Attrs().EncapType)
		return 0, 0, hint.With(err, `GN864 set kind = "none" or "macvlan" in [uplink]`)
	}
	return bytes, uint32(i.Attrs().MTU), nil
}

// Detach undoes Attach: before has what the interfaces had. An interface that is gone needs nothing. The programs stay
// if they are kept.
func (n Node) Detach(before []Before) error {
	var failed []error
	for _, b := range before {
		if err := detach(b); err != nil {
			failed = append(failed, fmt.Errorf("end the sharing of ports on %s: %w", b.Name, err))
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...) // a filter without pins is taken for one of a job that runs
	}
	if n.isKept() {
		return errors.Join(n.rest(), n.tidy())
	}
	return n.Forget()
}

func detach(b Before) error {
	i, err := netlink.LinkByIndex(b.Index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return err
	}
	if !b.AcceptLocal {
		if err := write(acceptLocal(i.Attrs().Name), "0"); err != nil {
			return err
		}
	}
	has, err := hasHooks(i)
	if !has || err != nil {
		return err
	}
	others := 0
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		left, err := detachFrom(i, parent)
		if err != nil {
			return err
		}
		others += left
	}
	if b.Hooks || others > 0 {
		return nil // somebody else uses it
	}
	if err := netlink.QdiscDel(clsact(b.Index)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove clsact: %w", err)
	}
	return nil
}

// detachFrom removes our filters at a hook, and counts those of others.
func detachFrom(i netlink.Link, parent uint32) (others int, err error) {
	list, err := netlink.FilterList(i, parent)
	if err != nil {
		return 0, fmt.Errorf("list traffic filters: %w", err)
	}
	for _, f := range list {
		if !isOurs(f) {
			others++
			continue
		}
		if err := netlink.FilterDel(f); err != nil && !errors.Is(err, unix.ENOENT) {
			return 0, fmt.Errorf("remove a traffic filter: %w", err)
		}
	}
	return others, nil
}

// filterName begins the names of our filters.
const filterName = "gresnet "

func isOurs(f netlink.Filter) bool {
	b, is := f.(*netlink.BpfFilter)
	return is && strings.HasPrefix(b.Name, filterName)
}

// Our filters come first: others may say that a packet passes, and then the kernel asks no later one.
const (
	priority = 1
	handle   = 0x6773
)

// alone refuses a hook where a program of somebody else's is asked before ours.
func alone(h hook) error {
	i, err := netlink.LinkByIndex(h.index)
	if err != nil {
		return fmt.Errorf("read interface %d: %w", h.index, err)
	}
	const ingress, egress = 46, 47 // BPF_TCX_INGRESS, BPF_TCX_EGRESS
	kind := uint32(ingress)
	if h.parent == netlink.HANDLE_MIN_EGRESS {
		kind = egress
	}
	tcx, err := bpf.Attached(h.index, kind)
	if err != nil {
		return err
	}
	others := ""
	if tcx > 0 {
		others = "a program of tcx"
	}
	list, err := netlink.FilterList(i, h.parent)
	if err != nil {
		return fmt.Errorf("list the traffic filters of %s: %w", i.Attrs().Name, err)
	}
	for _, f := range list {
		if f.Attrs().Priority <= priority && !isOurs(f) {
			others = "a traffic filter, " + f.Type()
			if b, is := f.(*netlink.BpfFilter); is {
				others += " " + b.Name
			}
		}
	}
	if others == "" {
		return nil
	}
	err = fmt.Errorf("share out the node's ports: %s has %s, which the kernel asks first", i.Attrs().Name, others)
	return hint.With(err, `GN865 give it a priority above 1, or set kind = "none" or "macvlan" in [uplink]`)
}

// lost fails if programs judge packets and their pins are gone. New ones would know nothing of the jobs that run, and leave
// these jobs' ports to whoever listens on the node. Pins are made before any filter and removed after all.
func (n Node) lost(hooks []hook) error {
	for _, h := range hooks {
		i, err := netlink.LinkByIndex(h.index)
		if err != nil {
			return fmt.Errorf("read interface %d: %w", h.index, err)
		}
		list, err := netlink.FilterList(i, h.parent)
		if err != nil {
			return fmt.Errorf("list the traffic filters of %s: %w", i.Attrs().Name, err)
		}
		if !slices.ContainsFunc(list, isOurs) {
			continue
		}
		if there, err := n.isThere(); there || err != nil {
			return err
		}
		err = fmt.Errorf("share out the node's ports: programs judge the packets of jobs that run, and their pins are gone from %s", n.Pins)
		return hint.With(err, "GN903 see whether somebody unmounted /sys/fs/bpf or mounted something over it; if it cannot be undone, jobs begin again when those that run have ended")
	}
	return nil
}

// attach attaches a pinned program to a hook, unless it is there.
func (n Node) attach(h hook) error {
	p, err := n.filter(h.program)
	if err != nil {
		return err
	}
	defer p.Close()
	id, err := p.ID()
	if err != nil {
		return err
	}
	i, err := netlink.LinkByIndex(h.index)
	if err != nil {
		return fmt.Errorf("read interface %d: %w", h.index, err)
	}
	name := i.Attrs().Name
	if is, err := isAttached(i, h.parent, id); is || err != nil {
		return err
	}
	if err := netlink.QdiscAdd(clsact(h.index)); err != nil && !errors.Is(err, unix.EEXIST) {
		return lacking(err, name)
	}
	err = netlink.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: h.index, Parent: h.parent, Handle: handle, Priority: priority, Protocol: unix.ETH_P_ALL},
		Fd:          p.FD(), Name: filterName + h.program, DirectAction: true,
	})
	if err != nil {
		return lacking(err, name)
	}
	return nil
}

// isAttached tells whether a filter of ours has a program.
func isAttached(i netlink.Link, parent uint32, program int) (bool, error) {
	list, err := netlink.FilterList(i, parent)
	if err != nil {
		return false, fmt.Errorf("list the traffic filters of %s: %w", i.Attrs().Name, err)
	}
	return slices.ContainsFunc(list, func(f netlink.Filter) bool {
		b, is := f.(*netlink.BpfFilter)
		return is && isOurs(f) && b.Id == program
	}), nil
}

// Unjudged returns the interfaces by which packets go that the programs do not judge, while there are jobs: of the
// loopback, of the uplinks that Attach was told, and of more ones.
func (n Node) Unjudged(more ...int) (all []int, err error) {
	if there, err := n.isThere(); !there || err != nil {
		return nil, err
	}
	lo, err := loopback()
	if err != nil {
		return nil, err
	}
	told, err := with(n, "uplinks", bpf.Keys[uint32])
	if err == nil && len(told) == 0 {
		return nil, nil // the programs are kept, and wait for a job
	}
	for _, index := range told {
		more = append(more, int(index))
	}
	hooks := []hook{ofLoopback(lo)}
	for _, index := range more {
		hooks = append(hooks, hooksOf(index)...)
	}
	for _, h := range hooks {
		is := false
		if err == nil {
			is, err = n.judges(h)
		}
		if err == nil && !is && !slices.Contains(all, h.index) {
			all = append(all, h.index)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the last job has ended meanwhile
	}
	return all, err
}

// judges tells whether a program is attached to its hook.
func (n Node) judges(h hook) (bool, error) {
	p, err := n.filter(h.program)
	if err != nil {
		return false, err
	}
	defer p.Close()
	id, err := p.ID()
	if err != nil {
		return false, err
	}
	i, err := netlink.LinkByIndex(h.index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read interface %d: %w", h.index, err)
	}
	return isAttached(i, h.parent, id)
}

func lacking(err error, name string) error {
	err = fmt.Errorf("filter what goes by %s: %w", name, err)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return hint.With(err, "GN866 the kernel must have CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF")
	}
	return err
}

func clsact(index int) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

func hasHooks(i netlink.Link) (bool, error) {
	list, err := netlink.QdiscList(i)
	if err != nil {
		return false, fmt.Errorf("list the queues of %s: %w", i.Attrs().Name, err)
	}
	for _, q := range list {
		if q.Type() == "clsact" || q.Type() == "ingress" {
			return true, nil
		}
	}
	return false, nil
}

func loopback() (int, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return 0, fmt.Errorf("read interface lo: %w", err)
	}
	return lo.Attrs().Index, nil
}

func acceptLocal(name string) string {
	return filepath.Join("/proc/sys/net/ipv4/conf", name, "accept_local")
}

// write writes a sysctl, unless it has the value.
func write(path, value string) error {
	had, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(had)) == value {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}
