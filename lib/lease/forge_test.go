package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/nft"
	"gresnet/test/await"
	"gresnet/test/netnstest"
)

// forge is a VXLAN packet of a network, in which an address of it sends a text to another's UDP port 5555.
func forge(id uint32, text string) []byte {
	p := []byte{0x08, 0, 0, 0}
	p = binary.BigEndian.AppendUint32(p, id<<8)
	p = append(p, 0x0e, 0x67, 10, 9, 0, 1, 0x0e, 0x67, 10, 9, 0, 2, 0x08, 0x00) // Ethernet
	size := uint16(20 + 8 + len(text))
	ip := []byte{0x45, 0, byte(size >> 8), byte(size), 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1}
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	p = append(p, ip...)
	p = binary.BigEndian.AppendUint16(p, 5555)
	p = binary.BigEndian.AppendUint16(p, 5555)
	p = binary.BigEndian.AppendUint16(p, size-20)
	p = append(p, 0, 0) // no checksum
	return append(p, text...)
}

// sendFrom sends a packet to the node's VXLAN port from a port of another node's.
func sendFrom(t *testing.T, far *netnstest.NS, port int, packet []byte) {
	t.Helper()
	err := far.Do(func() error {
		c, err := net.DialUDP("udp4", &net.UDPAddr{Port: port}, &net.UDPAddr{IP: net.IPv4(10, 9, 0, 1), Port: 489})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(packet)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hears is a socket of UDP port 5555 in a namespace.
func hears(t *testing.T, ns interface{ Do(func() error) error }) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	err := ns.Do(func() (err error) {
		c, err = net.ListenPacket("udp4", ":5555")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// heard is what a socket hears next.
func heard(t *testing.T, c net.PacketConn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(await.Most(t))); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	n, _, err := c.ReadFrom(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:n])
}

func TestWhatUsersForgeDoesNotReachAJob(t *testing.T) {
	node, far, _, state := overlayBed(t)
	testRun(t, node, state, "prolog", never)
	job, err := netns.Open(fmt.Sprintf("%s/jobs/%d/netns", state, testJob))
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	inJob := hears(t, job)
	const user, root = 5000, 700 // ports that they can bind

	// What comes later has come when the other does.
	sendFrom(t, far, user, forge(testJob, "forged"))
	sendFrom(t, far, root, forge(testJob, "the node's"))
	if got := heard(t, inJob); got != "the node's" {
		t.Errorf("the job heard %q first", got)
	}

	// It is the rule that drops it.
	if err := node.Do(func() error { return nft.RemoveForged("gresnet_overlay_4711") }); err != nil {
		t.Fatal(err)
	}
	sendFrom(t, far, user, forge(testJob, "forged"))
	if got := heard(t, inJob); got != "forged" {
		t.Errorf("without the rule the job heard %q", got)
	}
	testRun(t, node, state, "epilog", never)
}

// forger sends forged packets: from a namespace, to an address, perhaps by one interface.
type forger struct{ who, path, to, by string }

// send sends a packet to the nodes' VXLAN port from a port of its own, perhaps as several packets of a size.
func (f forger) send(port int, packet []byte, size int) error {
	ns, err := netns.Open(f.path)
	if err != nil {
		return err
	}
	defer ns.Close()
	d := net.Dialer{LocalAddr: &net.UDPAddr{Port: port}, Control: func(_, _ string, raw syscall.RawConn) (failed error) {
		err := raw.Control(func(fd uintptr) {
			if f.by != "" {
				failed = unix.BindToDevice(int(fd), f.by)
			}
			if failed == nil && size > 0 {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, size)
			}
		})
		return errors.Join(err, failed)
	}}
	return ns.Do(func() error {
		c, err := d.Dial("udp4", f.to+":489")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(packet)
		return err
	})
}

// The kernel takes a packet apart only for the socket that it is for (UDP_SEGMENT), after all rules. The first
// part may be of another network.
func TestWhatUsersAnywhereForgeDoesNotReachAJobAndWhatRootForgesDoes(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	for _, l := range []testLease{jobJ, jobK} {
		c.both(l, "prolog")
	}
	job, err := netns.Open(c.job(jobJ, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	inJob := hears(t, job)
	for _, f := range []forger{
		{"a user of the node", c.node[0].Path, "10.9.0.1", ""},
		{"a user of the node by its loopback", c.node[0].Path, "127.0.0.1", ""},
		{"the job itself by its uplink", c.job(jobJ, 0), "10.9.0.1", "uplink0"},
		{"another job of the node", c.job(jobK, 0), "10.9.0.1", "uplink0"},
		{"a user of a peer node", c.node[1].Path, "10.9.0.1", ""},
		{"another job of a peer node", c.job(jobK, 1), "10.9.0.1", "uplink0"},
		{"a user of another host", c.h.Path, "10.9.0.1", ""},
		{"a user of a host beyond", c.inet.Path, "10.9.0.1", ""},
	} {
		plain, first, second := forge(testJob, f.who), forge(99, f.who), forge(testJob, f.who+", in two parts")
		for len(first) < len(second) {
			first = append(first, 0)
		}
		err := f.send(5000, plain, 0)
		if err == nil {
			err = f.send(5001, append(first, second...), len(first))
		}
		if err != nil {
			t.Fatalf("%s: %v", f.who, err)
		}
		// What comes later has come when the other does.
		if err := (forger{path: c.h.Path, to: "10.9.0.1"}).send(700, forge(testJob, "root of another host"), 0); err != nil {
			t.Fatal(err)
		}
		if got := heard(t, inJob); got != "root of another host" {
			t.Errorf("the job heard %q", got)
			heard(t, inJob)
		}
	}
	for _, path := range []string{c.node[0].Path, c.job(jobK, 0)} {
		const bind = "import os, socket; os.setuid(65534); socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((\"\", 700))"
		if got := c.in(path, "", "sh", "-c", "python3 -c '"+bind+"' 2>&1 | tail -n 1"); got != "PermissionError: [Errno 13] Permission denied" {
			t.Errorf("a user binds a port below 1024: %s", got)
		}
	}
	// Nothing is learned of a sender's hardware address.
	root := forger{path: c.h.Path, to: "10.9.0.1"}
	strange := forge(testJob, "from a strange address")
	strange[8+11] = 0x77
	if err := root.send(700, strange, 0); err != nil {
		t.Fatal(err)
	}
	if got := heard(t, inJob); got != "from a strange address" {
		t.Errorf("the job heard %q", got)
	}
	if got := c.in(c.job(jobJ, 0), "", "sh", "-c", "bridge fdb show dev eth0 | grep -o 'dst [^ ]*' | uniq -c | tr -s ' '"); strings.TrimSpace(got) != "2 dst 10.9.0.2" {
		t.Errorf("eth0 sends to: %s", got)
	}
	// A job that names a node which is not its own sends to nobody there.
	c.both(jobJ, "epilog")
	other, err := netns.Open(c.job(jobK, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	inOther := hears(t, other)
	for _, id := range []uint32{jobJ.job, jobK.job} {
		if err := root.send(700, forge(id, fmt.Sprint(id)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := heard(t, inOther); got != fmt.Sprint(jobK.job) {
		t.Errorf("job %d heard what was for %s", jobK.job, got)
	}
	c.both(jobK, "epilog")
	c.same()
}

func TestAPrologFailsWhereUsersBindThePortsThatNodesSendFrom(t *testing.T) {
	netnstest.Slow(t)
	for first, fails := range map[int]bool{0: true, 1000: true, 1023: true, 1024: false, 2000: false} {
		node, _, _, state := overlayBed(t)
		node.Run(fmt.Sprintf("sysctl -qw net.ipv4.ip_unprivileged_port_start=%d", first))
		before := testPicture(node)
		out, err := whole.command(node, state, "prolog", never).CombinedOutput()
		why := fmt.Sprintf("users of the node can bind ports from %d on, and so forge packets of jobs' networks", first)
		if failed := err != nil && strings.Contains(string(out), why); failed != fails {
			t.Errorf("from %d on: the prolog: %v: %s", first, err, out)
		}
		testRun(t, node, state, "epilog", never)
		testSame(t, node, state, before)
	}
}
