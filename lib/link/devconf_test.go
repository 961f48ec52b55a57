package link

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

// Each sysctl that the kernel tells with the interface is changed in its file, if one
// of some values is taken, and told as it then is; so one that had another's number
// would be found.
func TestSysctlsThatTheKernelTellsAreWhatTheirFilesSay(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add eth9 type veth peer name eth8")
	changed := 0
	Dialled(t, ns, func(c *Conn) error {
		_, index := eth9(t, c)
		for _, folder := range []string{"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"} {
			for _, key := range withFiles(t, c, index, folder) {
				before := readSysctl(t, key)
				for _, value := range []string{"1", "0", "2", "77", "1400"} {
					err := os.WriteFile(sysctlPath(key, "eth9"), []byte(value), 0)
					if err == nil && value != before && readSysctl(t, key) == value {
						changed++
						break
					}
				}
				same(t, c, index, key)
			}
		}
		return nil
	})
	if changed < 100 {
		t.Errorf("only %d sysctls could be changed", changed)
	}
}

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

// eth9 lists the interfaces, and finds the one that is looked at.
func eth9(t *testing.T, c *Conn) (list []Interface, index int) {
	t.Helper()
	list, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	return list, list[slices.IndexFunc(list, func(i Interface) bool { return i.Name == "eth9" })].Index
}

// withFiles are the sysctls of a folder that are told and have a file.
func withFiles(t *testing.T, c *Conn, index int, folder string) (keys []string) {
	t.Helper()
	known := tell(t, c, index)
	entries, err := os.ReadDir(path.Join("/proc/sys/net", folder, "eth9"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := known[folder+"/"+e.Name()]; ok {
			keys = append(keys, folder+"/"+e.Name())
		}
	}
	return keys
}

// tell is all that is told, also what a kernel of other ticks would round.
func tell(t *testing.T, c *Conn, index int) Sysctls {
	t.Helper()
	i, err := c.look(index)
	if err != nil {
		t.Fatal(err)
	}
	c.parameters = nil
	known, err := c.told(i)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(known.exact, known.rounded)
	return known.exact
}

func readSysctl(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile(sysctlPath(key, "eth9"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// same wants all that is told to be what the files say, after one was changed.
func same(t *testing.T, c *Conn, index int, changed string) {
	t.Helper()
	known := tell(t, c, index)
	var wrong []string
	for key, value := range known {
		text, err := os.ReadFile(sysctlPath(key, "eth9"))
		if err != nil {
			continue // this kernel has no such file
		}
		if got := strings.TrimSpace(string(text)); got != value {
			wrong = append(wrong, fmt.Sprintf("%s is %s and told as %s", key, got, value))
		}
	}
	slices.Sort(wrong)
	for _, line := range wrong {
		t.Errorf("%s was changed: %s", changed, line)
	}
}

func TestAnInterfaceThatIsRenamedWhileItIsLookedAtIsLookedAtAgain(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add eth9 type veth peer name eth8")
	Dialled(t, ns, func(c *Conn) error {
		_, index := eth9(t, c)
		i, err := c.look(index)
		if err != nil {
			return err
		}
		ns.IP("link set eth9 name eth7")
		s, err := c.complete(i, nil)
		if s.Name != "eth7" || len(s.Sysctls) < 100 {
			t.Errorf("%q has %d sysctls", s.Name, len(s.Sysctls))
		}
		return err
	})
}

// Where there are many interfaces, those of neighbour tables are read from their files.
func TestSysctlsAreTheSameAmongManyInterfaces(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add eth9 type veth peer name eth8")
	read := func() (s Settings) {
		Dialled(t, ns, func(c *Conn) error {
			list, index := eth9(t, c)
			if n := count(); n != min(len(list), crowd+1) {
				t.Errorf("%d of %d interfaces were counted", n, len(list))
			}
			var err error
			s, err = c.Settings(index)
			if told := len(c.parameters) > 0; told == (len(list) > crowd) {
				t.Errorf("%d interfaces, told of neighbour tables: %t", len(list), told)
			}
			return err
		})
		return s
	}
	alone := read()
	for n := range crowd {
		ns.IP(fmt.Sprintf("link add many%d type veth peer name more%[1]d", n))
	}
	if among := read(); !maps.Equal(alone.Sysctls, among.Sysctls) {
		t.Errorf("alone %v\namong many %v", alone.Sysctls, among.Sysctls)
	}
}
