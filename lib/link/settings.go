package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Settings is what an administrator gave an interface and a move takes from
// it. Settings are read before the first change and applied by whoever brings
// the interface somewhere: the prolog into the job, the epilog back.
type Settings struct {
	Name      string    `json:"name"`
	MTU       int       `json:"mtu"`
	MAC       string    `json:"mac"`
	Up        bool      `json:"up"`
	Running   bool      `json:"running"`
	AcceptDAD string    `json:"accept_dad,omitempty"` // net.ipv6.conf.NAME.accept_dad
	Addresses []Message `json:"addresses,omitempty"`  // in the kernel's order
	Routes    []Message `json:"routes,omitempty"`     // of every table, the kernel's own included
}

// Settings reads an interface's settings. What could not be put back is
// refused here, before anything was changed.
func (c *Conn) Settings(index int) (Settings, error) {
	i, err := c.Get(index)
	if err != nil {
		return Settings{}, err
	}
	if i.Connected {
		return Settings{}, fmt.Errorf("%s is in connected mode, which gresnet cannot restore yet", i.Name)
	}
	s := Settings{Name: i.Name, MTU: i.MTU, MAC: i.MAC, Up: i.Up, Running: i.Running}
	if s.AcceptDAD, err = readSysctl(acceptDAD(i.Name)); err != nil {
		return Settings{}, err
	}
	if s.Addresses, err = c.addresses(index); err != nil {
		return Settings{}, fmt.Errorf("read the addresses of %s: %w", i.Name, err)
	}
	if s.Routes, err = c.routes(index); err != nil {
		return Settings{}, fmt.Errorf("read the routes of %s: %w", i.Name, err)
	}
	return s, nil
}

// carrierTimeout bounds the wait for a carrier that the interface had before: a
// port trains its link anew after some moves. One whose cable was pulled
// meanwhile has none any more, and gets its settings without it.
const carrierTimeout = 5 * time.Second

// Apply makes the interface's settings what is given, and only what differs:
// on an interface that has them it changes nothing.
func (c *Conn) Apply(index int, want Settings) (err error) {
	have, err := c.Get(index)
	if err != nil {
		return err
	}
	if err := c.rename(&have, want.Name); err != nil {
		return err
	}
	if err := c.setMTU(have, want.MTU); err != nil {
		return err
	}
	if err := c.setMAC(have, want.MAC); err != nil {
		return err
	}
	// The address was tested for duplicates when it was given; testing it again
	// would leave it unusable for a second, and its GID with it.
	if err := writeSysctl(acceptDAD(want.Name), "0", want.AcceptDAD); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, writeSysctl(acceptDAD(want.Name), want.AcceptDAD, want.AcceptDAD))
	}()
	if have.Up != want.Up {
		if err := c.set(index, want.Up); err != nil {
			return fmt.Errorf("bring %s %s: %w", want.Name, upOrDown(want.Up), err)
		}
	}
	if err := c.awaitCarrier(index, want); err != nil {
		return err
	}
	if err := c.applyAddresses(index, want); err != nil {
		return err
	}
	if err := c.awaitDAD(index, want); err != nil {
		return err
	}
	return c.applyRoutes(index, want)
}

// Differences names what of the settings the interface does not have, and
// what it has beyond them; nothing is equality.
func (c *Conn) Differences(index int, want Settings) ([]string, error) {
	have, err := c.Settings(index)
	if err != nil {
		return nil, err
	}
	var diff []string
	differ := func(what string, have, want any) {
		if have != want {
			diff = append(diff, fmt.Sprintf("%s is %v, was %v", what, have, want))
		}
	}
	differ("name", have.Name, want.Name)
	differ("MTU", have.MTU, want.MTU)
	if !isIPoIB(want.MAC) {
		differ("MAC", have.MAC, want.MAC)
	}
	differ("state", upOrDown(have.Up), upOrDown(want.Up))
	differ("accept_dad", have.AcceptDAD, want.AcceptDAD)
	diff = append(diff, compare("address", have.Addresses, want.Addresses, Message.addrKey, func(m Message) string { return m.Addr().String() })...)
	diff = append(diff, compare("route", have.Routes, want.Routes, Message.routeKey, Message.prefix)...)
	return diff, nil
}

func compare(what string, have, want []Message, key, name func(Message) string) []string {
	var diff []string
	for _, m := range missing(want, have, key) {
		diff = append(diff, fmt.Sprintf("%s %s is missing", what, name(m)))
	}
	for _, m := range missing(have, want, key) {
		diff = append(diff, fmt.Sprintf("%s %s was not there", what, name(m)))
	}
	return diff
}

// missing is what of a is not in b, in the order of a.
func missing(a, b []Message, key func(Message) string) []Message {
	in := make(map[string]bool, len(b))
	for _, m := range b {
		in[key(m)] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(m Message) bool { return in[key(m)] })
}

func (c *Conn) rename(have *Interface, name string) error {
	if have.Name == name {
		return nil
	}
	// Kernels before 6.2 refuse to rename an interface that is up.
	if have.Up {
		if err := c.Down(have.Index); err != nil {
			return fmt.Errorf("bring %s down to rename it: %w", have.Name, err)
		}
		have.Up = false
	}
	m := attribute(change(have.Index, false, 0), unix.IFLA_IFNAME, nl.ZeroTerminated(name))
	for end := time.Now().Add(renameTimeout); ; time.Sleep(5 * time.Millisecond) {
		_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m)
		if err == nil {
			have.Name = name
			return nil
		}
		if !errors.Is(err, unix.EEXIST) || time.Now().After(end) {
			return fmt.Errorf("rename %s to %s: %w", have.Name, name, err)
		}
	}
}

// renameTimeout bounds the wait for a name that another interface has for a
// moment: two epilogs at once may find theirs made anew under each other's names.
const renameTimeout = 2 * time.Second

func (c *Conn) setMTU(have Interface, mtu int) error {
	if have.MTU == mtu {
		return nil
	}
	m := attribute(change(have.Index, false, 0), unix.IFLA_MTU, native.AppendUint32(nil, uint32(mtu)))
	if _, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m); err != nil {
		return fmt.Errorf("set the MTU of %s to %d: %w", have.Name, mtu, err)
	}
	return nil
}

func (c *Conn) setMAC(have Interface, mac string) error {
	if have.MAC == mac || isIPoIB(mac) {
		return nil
	}
	hw, err := parseMAC(mac)
	if err != nil {
		return err
	}
	m := attribute(change(have.Index, false, 0), unix.IFLA_ADDRESS, hw)
	if _, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m); err != nil {
		return fmt.Errorf("set the MAC of %s to %s: %w", have.Name, mac, err)
	}
	return nil
}

// awaitCarrier waits until the interface has the carrier that it had: without
// one the kernel gives no IPv6 addresses and marks routes dead.
func (c *Conn) awaitCarrier(index int, want Settings) error {
	if !want.Up || !want.Running {
		return nil
	}
	for end := time.Now().Add(carrierTimeout); ; {
		i, err := c.Get(index)
		if err != nil || i.Running || time.Now().After(end) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *Conn) dumpAddresses(index int) ([][]byte, error) {
	request := make([]byte, addrHead)
	native.PutUint32(request[4:], uint32(index))
	return c.send(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, request)
}

func (c *Conn) addresses(index int) ([]Message, error) {
	answers, err := c.dumpAddresses(index)
	if err != nil {
		return nil, err
	}
	list := make([]Message, 0, len(answers))
	for _, a := range answers {
		m, err := cleanAddr(a)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func (c *Conn) applyAddresses(index int, want Settings) error {
	have, err := c.addresses(index)
	if err != nil {
		return fmt.Errorf("read the addresses of %s: %w", want.Name, err)
	}
	for _, m := range missing(have, want.Addresses, Message.addrKey) {
		_, err := c.send(unix.RTM_DELADDR, unix.NLM_F_ACK, 0, m.addrOn(index))
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s from %s: %w", m.Addr(), want.Name, err)
		}
	}
	for _, m := range inOrder(missing(want.Addresses, have, Message.addrKey)) {
		if m.lifetime() == 0 {
			continue // it expired, or was about to
		}
		_, err := c.send(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.addrOn(index))
		if err != nil {
			return fmt.Errorf("add address %s to %s: %w", m.Addr(), want.Name, err)
		}
	}
	return nil
}

// dadTimeout bounds the wait for duplicate address detection, which a node may
// demand of all its interfaces (net.ipv6.conf.all.accept_dad).
const dadTimeout = 5 * time.Second

// awaitDAD waits until the kernel has taken the IPv6 addresses for good. It
// gives an address its local route only then, in a work queue of its own, and
// so for an address, too, that is never tentative since it is not to be tested
// (addrconf.c:addrconf_dad_work).
func (c *Conn) awaitDAD(index int, want Settings) error {
	i, err := c.Get(index)
	if err != nil || !i.Running {
		return err // without a carrier the kernel does not begin
	}
	local := slices.DeleteFunc(slices.Clone(want.Routes), func(m Message) bool { return !m.localIPv6() })
	for end := time.Now().Add(dadTimeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		answers, err := c.dumpAddresses(index)
		if err != nil {
			return fmt.Errorf("read the addresses of %s: %w", want.Name, err)
		}
		if slices.ContainsFunc(answers, tentative) {
			continue
		}
		if len(local) == 0 {
			return nil
		}
		have, err := c.routes(index)
		if err != nil {
			return fmt.Errorf("read the routes of %s: %w", want.Name, err)
		}
		if len(missing(local, have, Message.routeKey)) == 0 {
			return nil
		}
	}
	return fmt.Errorf("wait for the addresses of %s: the kernel has not taken all after %s", want.Name, dadTimeout)
}

// inOrder turns the kernel's order into the one in which addresses must be
// given so that the kernel has them in its order again: IPv4 appends, IPv6
// puts the newest first (addrconf.c:ipv6_link_dev_addr).
func inOrder(list []Message) []Message {
	var v4, v6 []Message
	for _, m := range list {
		if m.family() == unix.AF_INET6 {
			v6 = append(v6, m)
		} else {
			v4 = append(v4, m)
		}
	}
	slices.Reverse(v6)
	return append(v4, v6...)
}

func (c *Conn) routes(index int) ([]Message, error) {
	var list []Message
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, routeHead)
		request[0] = family
		request = attribute(request, unix.RTA_OIF, native.AppendUint32(nil, uint32(index)))
		answers, err := c.send(unix.RTM_GETROUTE, unix.NLM_F_DUMP, unix.RTM_NEWROUTE, request)
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			if len(a) > 0 && a[0] != family {
				continue // a kernel without IPv6 answers for all families that it has
			}
			m, err := cleanRoute(a)
			if err != nil {
				return nil, err
			}
			list = append(list, m)
		}
	}
	return list, nil
}

func (c *Conn) applyRoutes(index int, want Settings) error {
	have, err := c.routes(index)
	if err != nil {
		return fmt.Errorf("read the routes of %s: %w", want.Name, err)
	}
	for _, m := range missing(have, want.Routes, Message.routeKey) {
		_, err := c.send(unix.RTM_DELROUTE, unix.NLM_F_ACK, 0, m.routeOn(index))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s from %s: %w", m.prefix(), want.Name, err)
		}
	}
	add := missing(want.Routes, have, Message.routeKey)
	add = slices.DeleteFunc(add, Message.ownRoute)
	// A gateway must be reachable before a route through it: those without one first.
	slices.SortStableFunc(add, func(a, b Message) int { return after(a) - after(b) })
	for _, m := range add {
		_, err := c.send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND|unix.NLM_F_ACK, 0, m.routeOn(index))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add route %s to %s: %w", m.prefix(), want.Name, err)
		}
	}
	return nil
}

func after(m Message) int {
	if m.hasGateway() {
		return 1
	}
	return 0
}

func acceptDAD(name string) string {
	return filepath.Join("/proc/sys/net/ipv6/conf", name, "accept_dad")
}

// SkipDAD makes the calling thread's namespace give new interfaces their IPv6
// addresses without testing them for duplicates, which takes a second each.
func SkipDAD() error {
	const path = "/proc/sys/net/ipv6/conf/default/accept_dad"
	was, err := readSysctl(path)
	if err != nil {
		return err
	}
	return writeSysctl(path, "0", was)
}

// readSysctl reads a sysctl of the calling thread's network namespace; one
// that the kernel does not have is empty.
func readSysctl(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// writeSysctl writes a sysctl, unless the kernel did not have it when the
// settings were read.
func writeSysctl(path, value, was string) error {
	if was == "" {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0)
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
