package invariant

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// A new tool, or a new kernel, can set what the table of settings has never heard of: then a test says so
// by name. What no setting is about has a reason here.

// unsettled are the objects of tools, the words of ip link set and the options of ethtool that no setting
// is about, and why.
var unsettled = map[string]string{
	"ip help": "tells", "ip monitor": "tells", "ip netconf": "tells", "ip tcpmetrics": "is measured by the kernel", "ip tcp_metrics": "is measured by the kernel",
	"ip amt": "is a kind of link", "ip tap": "makes a link", "ip tuntap": "makes a link", "ip tunnel": "makes a link", "ip vrf": "is a kind of link",
	"ip ila": "names the interface by its index, as IPsec does", "ip ioam": "is of the node", "ip sr": "is of the node", "ip netns": "is of the node", "ip stats": "counts",
	"ip macsec": "is about a child that is refused", "ip ntable": "sets sysctls of neighbors", "ip ntbl": "sets sysctls of neighbors",
	"ip mroute": "is a routing daemon's, by its socket", "ip mrule": "names the interface by its name, and stays",

	"ip link set carrier": "is the driver's to say", "ip link set name": "has tests of its own, name_test.go", "ip link set netns": "is the move itself",
	"ip link set broadcast": "is brd", "ip link set protodown_reason": "stays with protodown", "ip link set vrf": "is a master", "ip link set link-netns": "is of a child", "ip link set link-netnsid": "is of a child",
	"ip link set xdpdrv": "is as xdpgeneric", "ip link set xdpoffload": "is as xdpgeneric", "ip link set macaddr": "is of a macvlan, a child",

	"tc monitor": "tells", "tc exec": "runs a program", "tc help": "tells",
	"bridge monitor": "tells", "bridge link": "is of a bridge's port, which is refused", "bridge mdb": "is of a bridge's port, which is refused", "bridge vlan": "is of a bridge's port, which is refused",
	"bridge mst": "is of a bridge's port, which is refused", "bridge vni": "is of VXLAN, which is refused",
	"rdma resource": "tells", "rdma monitor": "tells", "rdma help": "tells", "rdma system": "is of the node",
	"devlink monitor": "tells", "devlink dpipe": "is of the device, whose driver keeps it", "devlink dev": "is of the device, whose driver keeps it",
	"devlink port": "is of the device, whose driver keeps it", "devlink lc": "is of the device, whose driver keeps it", "devlink linecard": "is of the device, whose driver keeps it",
	"devlink sb": "is of the device, whose driver keeps it", "devlink resource": "is of the device, whose driver keeps it", "devlink region": "is of the device, whose driver keeps it",
	"devlink health": "is of the device, whose driver keeps it", "devlink trap": "is of the device, whose driver keeps it",

	"ethtool -E": "is in the device's own memory", "ethtool -f": "is in the device's own memory", "ethtool -r": "asks for the link again", "ethtool -W": "is kept by the driver, as all of ethtool is",
	"ethtool --set-phy-tunable": "is kept by the driver, as --set-tunable is", "ethtool --set-module": "is in the device's own memory", "ethtool --reset": "is an act",
	"ethtool -Q": "is coalescing, queue by queue", "ethtool --set-plca-cfg": "is kept by the driver, as all of ethtool is", "ethtool --set-mm": "is kept by the driver, as all of ethtool is",
	"ethtool --set-pse": "is kept by the driver, as all of ethtool is", "ethtool --flash-module-firmware": "is in the device's own memory", "ethtool --json": "is how it tells",
}

// objects reads what a tool's help says to be its objects.
func objects(tool, help string) (list []string) {
	_, text, _ := strings.Cut(help, "OBJECT := {")
	text, _, _ = strings.Cut(text, "}")
	for _, word := range strings.Split(text, "|") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, tool+" "+word)
		}
	}
	return list
}

// linkWords reads the words of ip link set: the first of each pair of brackets, or those of the braces that
// it begins with.
func linkWords(help string) (list []string) {
	_, text, _ := strings.Cut(help, "ip link set")
	text, _, _ = strings.Cut(text, "ip link show")
	depth := 0
	for i, c := range text {
		switch c {
		case '[':
			if depth++; depth > 1 {
				continue
			}
			inside, _, _ := strings.Cut(text[i+1:], "]")
			inside = strings.TrimSpace(inside)
			if braces, is := strings.CutPrefix(inside, "{"); is {
				inside, _, _ = strings.Cut(braces, "}")
			} else {
				inside, _, _ = strings.Cut(inside, " ")
			}
			for _, word := range strings.Split(inside, "|") {
				list = append(list, "ip link set "+strings.TrimSpace(word))
			}
		case ']':
			depth--
		}
	}
	return list
}

// asks tells an option of ethtool that only asks, by what its help says of it.
var asks = regexp.MustCompile(`^(Show|Query|Display|Get|Print|Perform|Execute|Do a)`)

// options reads the options by which ethtool sets something, each with all its names.
func options(help string) (list [][]string) {
	for _, m := range regexp.MustCompile(`(?m)^\s*ethtool \[ FLAGS \]\s+(-\S+)\s+DEVNAME\s*(.*)$`).FindAllStringSubmatch(help, -1) {
		if names := strings.Split(m[1], "|"); !asks.MatchString(m[2]) {
			list = append(list, names)
		}
	}
	return list
}

// isSet tells whether a setting is about an object of a tool, whose name tools take shortened, and tc longer.
func isSet(object string) bool {
	tool, name, _ := strings.Cut(object, " ")
	used := regexp.MustCompile(`\b` + tool + ` (?:-\S+ (?:mpls )?)*([a-z0-9_]+)`)
	return slices.ContainsFunc(settings, func(s setting) bool {
		for _, m := range used.FindAllStringSubmatch(s.give, -1) {
			if len(m[1]) > 1 && (strings.HasPrefix(name, m[1]) || strings.HasPrefix(m[1], name)) {
				return true
			}
		}
		return false
	})
}

// isGiven tells whether a setting has a word of ip link set, or an option of ethtool.
func isGiven(command, word string) bool {
	like := regexp.MustCompile(`\b` + command + `[^;]*\s` + regexp.QuoteMeta(word) + `\b`)
	return slices.ContainsFunc(settings, func(s setting) bool { return like.MatchString(s.give + ";" + s.take) })
}

func helpOf(t *testing.T, line ...string) string {
	t.Helper()
	out, err := exec.Command(line[0], line[1:]...).CombinedOutput() // ip says its help on stderr, and fails
	if len(out) == 0 {
		t.Fatalf("%q: %v", line, err)
	}
	return string(out)
}

func TestEachThingThatToolsCanSetIsKnown(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	seen := map[string]bool{}
	known := func(what string, is bool) {
		seen[what] = true
		if !is && unsettled[what] == "" {
			t.Errorf("no setting of the table is about %s, and nobody says why", what)
		}
	}
	for _, tool := range []string{"ip", "tc", "bridge", "rdma", "devlink", "dcb"} {
		all := objects(tool, helpOf(t, tool, "help"))
		if len(all) < 3 {
			t.Errorf("%s has %q", tool, all)
		}
		for _, object := range all {
			known(object, isSet(object))
		}
	}
	words := linkWords(helpOf(t, "ip", "link", "help"))
	if len(words) < 20 {
		t.Errorf("ip link set has %q", words)
	}
	for _, what := range words {
		known(what, isGiven("ip link set", strings.TrimPrefix(what, "ip link set ")))
	}
	all := options(helpOf(t, "ethtool", "--help"))
	if len(all) < 10 {
		t.Errorf("ethtool has %q", all)
	}
	for _, names := range all {
		known("ethtool "+names[0], slices.ContainsFunc(names, func(name string) bool { return isGiven("ethtool", name) }))
	}
	t.Logf("%d things", len(seen))
}

// A folder of sysctls that has an interface's name is one that the table goes through (eachSysctl), or MPLS's.
func TestEachFolderOfSysctlsOfAnInterfaceIsKnown(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	const name = "roce0"
	for _, path := range strings.Fields(vm.Run(t, "find /proc/sys/net -type d -name "+name)) {
		folder := strings.TrimPrefix(filepath.Dir(path), "/proc/sys/net/")
		if !slices.Contains([]string{"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh", "mpls/conf"}, folder) {
			t.Errorf("nobody knows %s", path)
		}
	}
}
