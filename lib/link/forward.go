package link

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/link/inet"
	"gresnet/lib/link/sysctl"
)

// Forwards tells whether the namespace forwards what arrives by an interface
// (ip_forward sets it for all; net/ipv4/route.c:ip_route_input_slow looks at the
// interface's alone).
func Forwards(name string) (bool, error) {
	text, err := sysctl.ReadFile(forwarding(name))
	if err != nil {
		return false, fmt.Errorf("read whether %s forwards: %w", name, err)
	}
	return text == "1", nil
}

// All stands for all interfaces, and those to come: net.ipv4.ip_forward.
const All = "all"

// Forward has the namespace pass on what arrives by an interface, or not any more. The kernel
// also switches off large receive offload there when it begins to (devinet.c:devinet_sysctl_forward).
func Forward(name string, on bool) error {
	text := map[bool]string{true: "1", false: "0"}[on]
	if err := os.WriteFile(forwarding(name), []byte(text), 0); err != nil {
		return fmt.Errorf("set whether %s forwards: %w", name, err)
	}
	return nil
}

// MayForward is an error if nobody can set whether an interface forwards.
func MayForward(name string) error {
	f, err := os.OpenFile(forwarding(name), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set whether %s forwards: %w", name, err)
	}
	return f.Close()
}

func forwarding(name string) string {
	return filepath.Join("/proc/sys/net/ipv4/conf", name, "forwarding")
}

// IsGone tells whether an interface could not be asked or told something because it is no more.
func IsGone(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// lro is what ethtool calls large receive offload.
const lro = "rx-lro"

// LRO returns the interfaces, of an interface and all that is below it, for which large receive
// offload is asked for: those for which forwarding switches it off (dev.c:dev_disable_lro).
func (c *Conn) LRO(index int) (on []int, err error) {
	all, err := c.Below(index)
	if err != nil {
		return nil, err
	}
	for _, i := range append([]int{index}, all...) {
		features, err := c.Ethtool.Features(i)
		if err != nil {
			return nil, fmt.Errorf("read the features of interface %d: %w", i, err)
		}
		if slices.Contains(features, lro) {
			on = append(on, i)
		}
	}
	return on, nil
}

// WantLRO asks for large receive offload of an interface.
func (c *Conn) WantLRO(index int) error {
	features, err := c.Ethtool.Features(index)
	if err == nil && !slices.Contains(features, lro) {
		err = c.Ethtool.SetFeatures(index, append(features, lro))
	}
	if err != nil {
		return fmt.Errorf("switch large receive offload on for interface %d: %w", index, err)
	}
	return nil
}

// Way is a route of IPv4, of any table: where it leads, and by which interfaces, if by any.
type Way struct {
	To         netip.Prefix
	Interfaces []int
}

// Ways returns those of the namespace's routes to elsewhere that overlap with a network, and of the others the
// first by each interface. The node may have thousands of routes.
func (c *Conn) Ways(network netip.Prefix) (all []Way, err error) {
	var used map[int]bool // interfaces that a way goes by
	again := func() { all, used = nil, map[int]bool{} }
	again()
	var w Way
	fresh := false
	note := func(index []byte) {
		i := int(native.Uint32(index))
		w.Interfaces, fresh = append(w.Interfaces, i), fresh || !used[i]
	}
	err = inet.EachIPv4Route(c.Route, again, func(m []byte) {
		r := inet.Route(m)
		switch m[7] { // rtm_type
		case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST:
			return
		}
		to := r.Destination()
		if !to.IsValid() {
			to = netip.IPv4Unspecified()
		}
		w, fresh = Way{To: netip.PrefixFrom(to, int(m[1])), Interfaces: w.Interfaces[:0]}, false
		r.EachIndex(note)
		if !fresh && !w.To.Overlaps(network) {
			return
		}
		for _, i := range w.Interfaces {
			used[i] = true
		}
		all = append(all, Way{w.To, slices.Clone(w.Interfaces)})
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return all, nil
}

// Networks returns the IPv4 addresses of the namespace by interface, with the length
// of the network that each is in.
func (c *Conn) Networks() (map[int][]netip.Prefix, error) { return c.addresses(unix.AF_INET) }

// addresses returns the addresses of a family, or of all, by interface.
func (c *Conn) addresses(family byte) (map[int][]netip.Prefix, error) {
	request := make([]byte, unix.SizeofIfAddrmsg)
	request[0] = family
	answers, err := c.send(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, request)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	all := map[int][]netip.Prefix{}
	for _, m := range answers {
		if len(m) < unix.SizeofIfAddrmsg {
			return nil, fmt.Errorf("address message of %d bytes", len(m))
		}
		index := int(native.Uint32(m[4:]))
		all[index] = append(all[index], inet.Address(m).Addr())
	}
	return all, nil
}
