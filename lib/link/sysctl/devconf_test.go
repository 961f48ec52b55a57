package sysctl

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/netnstest"
)

// Each sysctl that the kernel tells with the interface is changed in its file, if one
// of some values is taken, and reported as it then is; so one that had another's number
// would be found.
func TestSysctlsThatTheKernelTellsAreWhatTheirFilesSay(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add eth9 type veth peer name eth8")
	changed := 0
	dialed(t, ns, func(c *Conn) error {
		for _, folder := range []string{"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"} {
			for _, key := range withFiles(t, c, folder) {
				before := readSysctl(t, key)
				for _, value := range []string{"1", "0", "2", "77", "1400"} {
					err := os.WriteFile(Path(key, "eth9"), []byte(value), 0)
					if err == nil && value != before && readSysctl(t, key) == value {
						changed++
						break
					}
				}
				same(t, c, key)
			}
		}
		return nil
	})
	if changed < 100 {
		t.Errorf("only %d sysctls could be changed", changed)
	}
}

// dialed calls a function in a namespace, with a connection to it.
func dialed(t *testing.T, ns *netnstest.NS, f func(*Conn) error) {
	t.Helper()
	err := ns.Do(func() error {
		route, err := netlink.OpenRoute()
		if err != nil {
			return err
		}
		defer route.Close()
		return f(New(route))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eth9 looks at the interface that is looked at.
func eth9(t *testing.T, c *Conn) Interface {
	t.Helper()
	request := netlink.AppendText(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, "eth9")
	answers, err := c.route.Send(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, request)
	if err != nil || len(answers) != 1 {
		t.Fatalf("look at eth9: %x, %v", answers, err)
	}
	list, err := netlink.Parse(answers[0][unix.SizeofIfInfomsg:])
	if err != nil {
		t.Fatal(err)
	}
	return Interface{Index: int(native.Uint32(answers[0][4:])), MTU: int(list.Number(unix.IFLA_MTU)), Name: "eth9", Described: list}
}

// withFiles returns the sysctls of a folder that are reported and have a file.
func withFiles(t *testing.T, c *Conn, folder string) (keys []string) {
	t.Helper()
	known := tell(t, c)
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

// tell returns all that is reported, also what a kernel of other ticks would round.
func tell(t *testing.T, c *Conn) Values {
	t.Helper()
	c.Forget()
	known, err := c.reported(eth9(t, c))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(known.exact, known.rounded)
	return known.exact
}

func readSysctl(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile(Path(key, "eth9"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// same wants all that is reported to be what the files say, after one was changed.
func same(t *testing.T, c *Conn, changed string) {
	t.Helper()
	known := tell(t, c)
	var wrong []string
	for key, value := range known {
		text, err := os.ReadFile(Path(key, "eth9"))
		if err != nil {
			continue // this kernel has no such file
		}
		if got := strings.TrimSpace(string(text)); got != value {
			wrong = append(wrong, fmt.Sprintf("%s is %s and reported as %s", key, got, value))
		}
	}
	slices.Sort(wrong)
	for _, line := range wrong {
		t.Errorf("%s was changed: %s", changed, line)
	}
}

// Where there are many interfaces, those of neighbour tables are read from their files.
func TestSysctlsAreTheSameAmongManyInterfaces(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add eth9 type veth peer name eth8")
	read := func(interfaces int) (values Values) {
		dialed(t, ns, func(c *Conn) (err error) {
			if n := count(); n != min(interfaces, crowd+1) {
				t.Errorf("%d of %d interfaces were counted", n, interfaces)
			}
			values, err = c.Read(eth9(t, c), nil)
			if reported := len(c.parameters) > 0; reported == (interfaces > crowd) {
				t.Errorf("%d interfaces, reported of neighbour tables: %t", interfaces, reported)
			}
			return err
		})
		return values
	}
	alone := read(3) // with lo
	for n := range crowd {
		ns.IP(fmt.Sprintf("link add many%d type veth peer name more%[1]d", n))
	}
	if among := read(3 + 2*crowd); !maps.Equal(alone, among) {
		t.Errorf("alone %v\namong many %v", alone, among)
	}
}

// FuzzDescribed holds what is made of an interface as the kernel describes it to come to an end.
func FuzzDescribed(f *testing.F) {
	values := netlink.Append(nil, iflaInetConf, make([]byte, 40))
	f.Add(netlink.Append(nil, unix.IFLA_AF_SPEC, netlink.Append(nil, unix.AF_INET, values)))
	f.Fuzz(func(t *testing.T, m []byte) {
		list, err := netlink.Parse(m)
		if err != nil {
			return
		}
		reported, err := reportedByInterface(list)
		if err == nil && len(reported.exact)+len(reported.rounded) > len(m)/4 {
			t.Errorf("%d sysctls in %d bytes", len(reported.exact)+len(reported.rounded), len(m))
		}
	})
}
