package link

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

func TestWhatStandsOnAnInterfaceIsFoundWithoutAWordOfItsOwn(t *testing.T) {
	ns := netnstest.New(t)
	ns.Run(`ip link add hca0 type veth peer name far0; ip link add other type veth peer name otherfar; ip link add br0 type bridge; ip link set other master br0
for n in 1 2; do ip link add mv$n link hca0 type macvlan mode bridge; done`)
	sys := t.TempDir()
	for path, want := range map[string][]string{
		filepath.Join(sys, "class/net"): {"mv1", "mv2"},
		t.TempDir():                     nil, // a /sys that does not show the namespace
	} {
		had := classNet
		classNet = path
		err := ns.Do(func() error {
			if err := unix.Mount("sysfs", sys, "sysfs", 0, ""); err != nil {
				return &os.PathError{Op: "mount", Path: sys, Err: err}
			}
			defer unix.Unmount(sys, unix.MNT_DETACH)
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
				b, err := c.bound(i)
				if err != nil {
					return err
				}
				var names []string
				for _, index := range b.Upper {
					u, err := c.Get(index)
					if err != nil {
						return err
					}
					names = append(names, u.Name)
				}
				slices.Sort(names)
				switch {
				case i.Name == "hca0" && !slices.Equal(names, want):
					t.Errorf("by %s, %q stand on it, wanted %q", path, names, want)
				case i.Name == "otherfar" && len(names) > 0:
					t.Errorf("by %s, %q stand on %s", path, names, i.Name)
				}
			}
			return nil
		})
		classNet = had
		if err != nil {
			t.Fatal(err)
		}
	}
}
