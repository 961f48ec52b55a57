package lease

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/nft"
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
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
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
	lawRun(t, node, state, "prolog", never)
	job, err := netns.Open(fmt.Sprintf("%s/jobs/%d/netns", state, lawJob))
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	inJob := hears(t, job)
	const user, root = 5000, 700 // ports that they can bind

	// What comes later has come when the other does.
	sendFrom(t, far, user, forge(lawJob, "forged"))
	sendFrom(t, far, root, forge(lawJob, "the node's"))
	if got := heard(t, inJob); got != "the node's" {
		t.Errorf("the job heard %q first", got)
	}

	// Another VXLAN of the node's, on the same port, is none of the rule's business.
	node.IP("link add other0 address 0e:67:0a:09:00:01 type vxlan id 99 local 10.9.0.1 dstport 489 nolearning")
	node.Run("ip link set other0 up; sysctl -qw net.ipv4.conf.other0.accept_local=1 net.ipv4.conf.other0.rp_filter=0 net.ipv4.conf.all.rp_filter=0")
	inOther := hears(t, node)
	sendFrom(t, far, user, forge(99, "of another network"))
	if got := heard(t, inOther); got != "of another network" {
		t.Errorf("the other VXLAN heard %q", got)
	}

	// It is the rule that drops it.
	if err := node.Do(func() error { return nft.RemoveForged("gresnet_overlay_4711") }); err != nil {
		t.Fatal(err)
	}
	sendFrom(t, far, user, forge(lawJob, "forged"))
	if got := heard(t, inJob); got != "forged" {
		t.Errorf("without the rule the job heard %q", got)
	}
	lawRun(t, node, state, "epilog", never)
}
