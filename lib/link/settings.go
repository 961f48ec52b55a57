package link

import (
	"errors"
	"fmt"
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

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
