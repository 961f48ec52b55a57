package link

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

// udev names an interface that was renamed before udev came to it by an alternative name.
func TestAnInterfaceIsGivenItsNameThoughThatIsItsAlternativeNameAlready(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add gresnet0 type veth peer name other")
	ns.IP("link property add dev gresnet0 altname ibp2s0")
	ns.IP("link property add dev other altname theirs")
	onGresnet0(t, ns, func(c *Conn, i Interface) error {
		if err := c.Rename(&i, "theirs"); !errors.Is(err, ErrNameTaken) {
			t.Errorf("another one has the name: %v", err)
		}
		return c.Rename(&i, "ibp2s0")
	})
	ns.IP("link show dev ibp2s0")
}

func TestAnInterfaceThatUdevHasRenamedMeanwhileHasItsName(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add gresnet0 type veth peer name other")
	ns.IP("link property add dev gresnet0 altname ibp2s0")
	onGresnet0(t, ns, func(c *Conn, i Interface) error {
		before, err := c.Look(i.Index)
		if err != nil {
			return err
		}
		ns.IP("link property del dev gresnet0 altname ibp2s0")
		ns.IP("link set gresnet0 name ibp2s0")
		if err := c.Rename(&i, "ibp2s0"); err != nil {
			t.Error(err)
		}
		return c.ApplyAltNames(i.Index, before.Own, Own{Name: "ibp2s0"})
	})
	ns.IP("link show dev ibp2s0")
}

// TestAnInterfaceIsGivenItsNameThoughUdevMakesItAnAlternativeOneAtThatMoment has somebody else add the name 300 times
// while the interface is renamed.
func TestAnInterfaceIsGivenItsNameThoughUdevMakesItAnAlternativeOneAtThatMoment(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add gresnet0 type veth peer name other")
	begin, added := make(chan int), make(chan bool)
	go func() {
		defer close(added)
		_ = ns.Do(func() error {
			udev, err := Dial()
			if err != nil {
				return err
			}
			defer udev.Close()
			for index := range begin {
				_ = udev.altName(unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_APPEND, index, "ibp2s0") // it may be the name already
				added <- true
			}
			return nil
		})
	}()
	onGresnet0(t, ns, func(c *Conn, i Interface) error {
		defer close(begin)
		for range 300 {
			begin <- i.Index
			if err := c.Rename(&i, "ibp2s0"); err != nil {
				return err
			}
			<-added
			if err := c.Rename(&i, "gresnet0"); err != nil {
				return err
			}
		}
		return nil
	})
}

// onGresnet0 calls a function with the interface gresnet0 of a namespace.
func onGresnet0(t *testing.T, ns *netnstest.NS, do func(*Conn, Interface) error) {
	t.Helper()
	err := ns.Do(func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		list, err := c.List()
		if err != nil {
			return err
		}
		for _, i := range list {
			if i.Name == "gresnet0" {
				return do(c, i)
			}
		}
		return errors.New("there is no gresnet0")
	})
	if err != nil {
		t.Error(err)
	}
}
