package sysctl

import (
	"fmt"
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
	dialed(t, ns, func(r *netlink.Route) error {
		for _, folder := range []string{"ipv4/conf", "ipv6/conf"} {
			for _, key := range withFiles(t, r, folder) {
				before := readSysctl(t, key)
				for _, value := range []string{"1", "0", "2", "77", "1400"} {
					err := os.WriteFile(Path(key, "eth9"), []byte(value), 0)
					if err == nil && value != before && readSysctl(t, key) == value {
						changed++
						break
					}
				}
				same(t, r, key)
			}
		}
		return nil
	})
	if changed < 70 {
		t.Errorf("only %d sysctls could be changed", changed)
	}
}

// dialed calls a function in a namespace, with a connection to it.
func dialed(t *testing.T, ns *netnstest.NS, f func(*netlink.Route) error) {
	t.Helper()
	err := ns.Do(func() error {
		route, err := netlink.OpenRoute()
		if err != nil {
			return err
		}
		defer route.Close()
		return f(route)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eth9 looks at the interface that is looked at.
func eth9(t *testing.T, r *netlink.Route) Interface {
	t.Helper()
	request := netlink.AppendText(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, "eth9")
	answers, err := r.Send(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, request)
	if err != nil || len(answers) != 1 {
		t.Fatalf("look at eth9: %x, %v", answers, err)
	}
	list, err := netlink.Parse(answers[0][unix.SizeofIfInfomsg:])
	if err != nil {
		t.Fatal(err)
	}
	return Interface{MTU: int(list.Number(unix.IFLA_MTU)), Name: "eth9", Described: list}
}

// withFiles returns the sysctls of a folder that are reported and have a file.
func withFiles(t *testing.T, r *netlink.Route, folder string) (keys []string) {
	t.Helper()
	known := tell(t, r)
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

// tell returns all that is reported.
func tell(t *testing.T, r *netlink.Route) Values {
	t.Helper()
	known, err := reported(eth9(t, r).Described)
	if err != nil {
		t.Fatal(err)
	}
	return known
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
func same(t *testing.T, r *netlink.Route, changed string) {
	t.Helper()
	known := tell(t, r)
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

// FuzzDescribed holds what is made of an interface as the kernel describes it to come to an end.
func FuzzDescribed(f *testing.F) {
	values := netlink.Append(nil, iflaInetConf, make([]byte, 40))
	f.Add(netlink.Append(nil, unix.IFLA_AF_SPEC, netlink.Append(nil, unix.AF_INET, values)))
	f.Fuzz(func(t *testing.T, m []byte) {
		list, err := netlink.Parse(m)
		if err != nil {
			return
		}
		told, err := reported(list)
		if err == nil && len(told) > len(m)/4 {
			t.Errorf("%d sysctls in %d bytes", len(told), len(m))
		}
	})
}
