package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/link/snapshot"
)

// hca is an HCA of the node as a case begins.
type hca struct {
	rdma string
	link string
}

const config = "/etc/gresnet/gresnet.toml"

// udevSettle waits for udev as long as this guest's clock, which jumps, may need for it.
const udevSettle = "udevadm settle --timeout=$((120 * ${GRESNET_SLOW:-1}))"

// setUp makes the node what a case wants it to be.
func setUp(c testCase) ([]hca, error) {
	// The mode cannot be changed while a namespace dies, nor the driver unloaded
	// while a device is in one.
	err := eventually(func() error {
		return shell("modprobe -r ibfake && rdma system set netns " + c.Mode)
	})
	if err != nil {
		return nil, err
	}
	if c.HCAs > 0 {
		if err := shell(fmt.Sprintf("modprobe ibfake n%s=%d train=%d && %s", c.Kind, c.HCAs, c.Train, udevSettle)); err != nil {
			return nil, err
		}
	}
	list, err := lookup()
	if err != nil {
		return nil, err
	}
	if len(list) != c.HCAs {
		return nil, fmt.Errorf("the node has %d HCAs, wanted %d", len(list), c.HCAs)
	}
	if err := unrelated(c); err != nil {
		return nil, err
	}
	if err := batch(settingsOf(list)); err != nil {
		return nil, err
	}
	if err := shell("find /dev/infiniband -name 'u*[0-9]' -exec chmod 600 {} +; rm -rf /run/gresnet; " + udevSettle); err != nil {
		return nil, err
	}
	return list, errors.Join(writeConfig(c, list), cluster(c))
}

// lookup lists the stub HCAs in their order, each with its interface.
func lookup() ([]hca, error) {
	conn, err := rdma.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return nil, err
	}
	list := make([]hca, len(devices))
	for _, d := range devices {
		var n int
		if _, err := fmt.Sscanf(d.Name, "ibfake%d", &n); err != nil || n >= len(list) {
			return nil, fmt.Errorf("RDMA device %s: not the %d. of ibfake's", d.Name, n)
		}
		link, err := linkOf(conn, d, n)
		if err != nil {
			return nil, err
		}
		list[n] = hca{d.Name, link}
	}
	return list, nil
}

// linkOf returns the name of an HCA's interface. IPoIB's are numbered as they come.
func linkOf(conn *rdma.Conn, d rdma.Device, n int) (string, error) {
	ports, err := conn.Ports(d.Index)
	if err != nil {
		return "", err
	}
	for _, p := range ports {
		if p.Interface == 0 {
			continue
		}
		names, err := filepath.Glob("/sys/class/net/*/ifindex")
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == fmt.Sprint(p.Interface) {
				return filepath.Base(filepath.Dir(name)), nil
			}
		}
	}
	return fmt.Sprintf("ib%d", n), nil
}

// settingsOf returns the ip commands that give each interface an address and a route.
func settingsOf(list []hca) string {
	text := ""
	for n, h := range list {
		text += fmt.Sprintf("link set %s up\naddr add 10.%d.0.2/24 dev %[1]s\nroute add 172.16.%d.0/24 via 10.%[2]d.0.1 dev %[1]s\n", h.link, n, n)
	}
	return text
}

// unrelated gives the node the interfaces and routes that no HCA has to do with.
// The default route is one. udev is not told of them: it would be at it for minutes.
func unrelated(c testCase) error {
	if err := shell(udevSettle + " && udevadm control --exit"); err != nil {
		return err
	}
	if err := fillNetwork(c, "dummy"); err != nil {
		return err
	}
	if err := fillNode(c); err != nil {
		return err
	}
	return shell("/lib/systemd/systemd-udevd --daemon --event-timeout=$((180 * ${GRESNET_SLOW:-1}))")
}

// fillNetwork gives the node the interfaces, which are of a kind, routes and neighbors of a case in place of those of the case before.
func fillNetwork(c testCase, kind string) error {
	if err := shell("ip link show type " + kind + " | awk -F': ' '/^[0-9]+: other/ { print \"link del \" $2 }' | ip -batch -"); err != nil {
		return err
	}
	text := ""
	for n := range c.Interfaces {
		text += fmt.Sprintf("link add other%d type %s\n", n, kind)
	}
	if c.Routes > 1 {
		text += "link add other-routes type " + kind + "\nlink set other-routes up\naddr add 198.18.0.1/24 dev other-routes\n"
		for n := range c.Routes - 1 {
			text += fmt.Sprintf("route add 100.%d.%d.%d/28 via 198.18.0.2\n", 64+n>>12, n>>4%256, n%16*16)
		}
	}
	if c.Neighbors > 0 {
		text += "link add other-neighbors type " + kind + "\nlink set other-neighbors up\naddr add 198.19.0.1/16 dev other-neighbors\n"
		for n := range c.Neighbors {
			text += fmt.Sprintf("neigh add 198.19.%d.%d lladdr 02:00:00:00:%02x:%02[2]x dev other-neighbors nud permanent\n", 1+n/256, n%256, n/256)
		}
	}
	return batch(text)
}

// writeConfig maps GPU n to HCA n, and gives jobs the networks of a case.
func writeConfig(c testCase, list []hca) error {
	overlay, uplink := "none", "none"
	if c.Nodes > 0 {
		overlay = "vxlan"
	}
	if c.WayOut {
		uplink = "auto"
	}
	text := fmt.Sprintf("[slurm]\nsource = [\"gpu\"]\n[overlay]\nkind = %q\n[uplink]\nkind = %q\n", overlay, uplink)
	for n, h := range list {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%[1]d]\n", n, h.rdma)
	}
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		return err
	}
	return os.WriteFile(config, []byte(text), 0o644)
}

// cluster tells by slurm.conf where a job's nodes are, which the node reaches by an
// interface of its own.
func cluster(c testCase) error {
	text := ""
	if c.Nodes == 0 {
		if _, err := os.Stat("/etc/slurm/slurm.conf"); err == nil {
			return nil
		}
		text = "NodeName=node1 NodeAddr=192.0.2.1\n" // without it no interface moves
	}
	for first := 1; first <= c.Nodes; first += 250 {
		last := min(first+249, c.Nodes)
		text += fmt.Sprintf("NodeName=node[%d-%d] NodeAddr=10.66.%d.[1-%d]\n", first, last, first/250, last-first+1)
	}
	if err := os.MkdirAll("/etc/slurm", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/slurm/slurm.conf", []byte(text), 0o644); err != nil {
		return err
	}
	if c.Nodes == 0 {
		return nil
	}
	return shell("if [ ! -e /sys/class/net/cluster0 ]; then ip link add cluster0 type dummy; ip link set cluster0 up; " +
		"ip addr add 10.66.0.1/16 dev cluster0; ip route replace default via 10.66.255.254; fi; " + udevSettle)
}

// trained waits until the HCAs' links have their carriers in a namespace.
func trained(netnsPath string, list []hca) error {
	ns, err := netns.Open(netnsPath)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(func() error {
		c, err := snapshot.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		for _, h := range list {
			for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				i, err := c.Named(h.link)
				if err != nil {
					return err
				}
				if i.Running {
					break
				}
				if time.Now().After(end) {
					return fmt.Errorf("%s has no carrier", h.link)
				}
			}
		}
		return nil
	})
}

// settle waits until udev has dealt with what happened (udevadm(8)).
func settle() error {
	for end := time.Now().Add(patience(2 * time.Minute)); ; time.Sleep(time.Millisecond) {
		_, err := os.Stat("/run/udev/queue")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || time.Now().After(end) {
			return fmt.Errorf("wait for udev: %v", err)
		}
	}
}

// nodeHas are the parts of the node, as its user sees it; numbers that a move deals again left out, and lost carriers:
// the kernel says so a moment later.
var nodeHas = []struct{ name, command string }{
	{"addresses", "ip -o -4 addr | sed 's/^[0-9]*: //' | sort"},
	{"routes", "ip route | sed 's, linkdown,,' | sort"},
	{"RDMA devices", "rdma dev | sed 's/^[0-9]*: //' | sort"},
	{"device nodes", "find /dev/infiniband -name 'uverbs*' -printf '%f %m %u\n' | sort"},
}

// onNode returns each part of the node.
func onNode() (now []string, err error) {
	for _, p := range nodeHas {
		text, err := output(p.command)
		if err != nil {
			return nil, err
		}
		now = append(now, text)
	}
	return now, nil
}

// differing names the parts of the node that are not as they were.
func differing(before []string) (names []string, err error) {
	now, err := onNode()
	if err != nil {
		return nil, err
	}
	for i, p := range nodeHas {
		if now[i] != before[i] {
			names = append(names, p.name)
		}
	}
	return names, nil
}

// restored returns an error if the node is not as it was.
func restored(before []string) error {
	names, err := differing(before)
	if err == nil && names != nil {
		now, _ := onNode()
		err = fmt.Errorf("the node has other %s: it is\n%s\nand was\n%s", strings.Join(names, ", "), strings.Join(now, ""), strings.Join(before, ""))
	}
	return err
}

// inside returns the same of a job's namespace and device nodes. An IPoIB interface's
// address begins with a number of its queue pair.
func inside(netns, dev string) (string, error) {
	return output("nsenter --net=" + netns + " sh -ec 'ip -br link | awk \"{print \\$1, substr(\\$3, length(\\$3)-16), \\$4 ~ /[<,]UP[,>]/}\" | sort; ip -o -4 addr | sed \"s/^[0-9]*: //\" | sort; ip route | sed \"s, linkdown,,\" | sort; rdma dev | sed \"s/^[0-9]*: //\" | sort'; stat -c '%n %a %u %t' " + dev + "/* | sed 's,.*/,,' | sort")
}

// patience returns how long to wait for what takes no longer than d on a machine at rest: see
// GRESNET_SLOW in test/vm/README.md.
func patience(d time.Duration) time.Duration {
	slow, err := strconv.Atoi(os.Getenv("GRESNET_SLOW"))
	if err != nil {
		return d // bench native: the machine's own kernel and clock
	}
	return time.Duration(slow) * d
}

func eventually(f func() error) (err error) {
	for end := time.Now().Add(patience(30 * time.Second)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

func shell(command string) error {
	_, err := output(command)
	return err
}

func output(command string) (string, error) {
	cmd := exec.Command("bash", "-ec", "set -o pipefail\n"+command)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, text)
	}
	return string(text), nil
}

func batch(text string) error { return feed(text, "ip", "-batch", "-") }

// feed runs a program that reads a text.
func feed(text string, command ...string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, out)
	}
	return nil
}
