package snapshot

import (
	"slices"
	"testing"

	"gresnet/lib/link"
	"gresnet/test/netnstest"
)

// Dialled calls a function in a namespace, with a connection to it.
func Dialled(t *testing.T, ns *netnstest.NS, f func(*Conn) error) {
	t.Helper()
	err := ns.Do(func() error {
		c, err := Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		return f(c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnInterfaceThatIsRenamedWhileItIsLookedAtIsLookedAtAgain(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add eth9 type veth peer name eth8")
	Dialled(t, ns, func(c *Conn) error {
		list, err := c.List()
		if err != nil {
			return err
		}
		index := list[slices.IndexFunc(list, func(i link.Interface) bool { return i.Name == "eth9" })].Index
		i, err := c.Look(index)
		if err != nil {
			return err
		}
		ns.IP("link set eth9 name eth7")
		s, err := c.complete(i, false, false)
		if s.Name != "eth7" || len(s.Sysctls) < 100 {
			t.Errorf("%q has %d sysctls", s.Name, len(s.Sysctls))
		}
		return err
	})
}
