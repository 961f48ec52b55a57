package lease

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netns"
)

// holds starts a server of TCP port 7000 in a namespace that answers and never closes, until the test ends.
func holds(t *testing.T, path string) {
	t.Helper()
	server := exec.Command("nsenter", "--net="+path, "python3", "-c", `
import socket
s, held = socket.create_server(("", 7000)), []
print("ready", flush=True)
while True:
	c, _ = s.accept()
	c.send(b"held")
	held.append(c)`)
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	if _, err := fmt.Fscan(out, new(string)); err != nil {
		t.Fatal(err)
	}
}

// The kernel's list keeps connections for minutes and longer, and tables let pass what it has.
func TestNobodyReachesAJobByAConnectionOfTheJobThatHadItsAddressBefore(t *testing.T) {
	c := newCluster(t)
	t.Setenv(fmt.Sprintf("GRESNET_LAW_UID_%d", jobK.job), "1001")
	c.both(jobJ, "prolog")
	j1, n1 := c.job(jobJ, 0), c.node[0].Path
	c.serve(j1, "j1", "0.0.0.0", "8080")
	holds(t, j1)
	c.check(
		call{what: "the job calls a host", path: j1, to: "udp 203.0.113.9 9000", want: "refused", more: "own=5003"},
		call{what: "its user on the node by UDP", path: n1, to: "udp 198.19.0.1 8080", want: "j1<198.19.0.0", more: "own=5001 uid=1000"},
		call{what: "its user on the node by TCP", path: n1, to: "tcp 198.19.0.1 7000", want: "held", more: "own=5002 uid=1000"},
	)
	c.serve(j1, "j1", "0.0.0.0", "5003")
	c.check(call{what: "the host calls the job", path: c.inet.Path, to: "udp 10.9.0.1 5003", want: "j1<203.0.113.9", more: "own=9000"})
	c.both(jobJ, "epilog")

	c.both(jobK, "prolog")
	k1 := c.job(jobK, 0)
	c.serve(k1, "k1", "0.0.0.0", "8080", "5003")
	holds(t, k1)
	c.check(
		call{what: "the job's user on the node", path: n1, to: "udp 198.19.0.1 8080", want: "k1<198.19.0.0", more: "uid=1001"},
		call{what: "the former job's user by UDP", path: n1, to: "udp 198.19.0.1 8080", want: "Operation not permitted", more: "own=5001 uid=1000"},
		call{what: "the former job's user by TCP", path: n1, to: "tcp 198.19.0.1 7000", want: "silence", more: "own=5002 uid=1000"},
		call{what: "a host that the former job has called", path: c.inet.Path, to: "udp 10.9.0.1 5003", want: "refused", more: "own=9000"},
	)
	c.both(jobK, "epilog")
	c.same()
}

// sendAs sends a text to UDP port 5555 from any address.
func sendAs(path, from, to, text string) error {
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	transparent := func(_, _ string, raw syscall.RawConn) (failed error) {
		err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
		return errors.Join(err, failed)
	}
	return ns.Do(func() error {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}, Control: transparent}
		c, err := d.Dial("udp4", to+":5555")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(text))
		return err
	})
}

// A program can bind to the address of an HCA, and what a job sends needs no answer.
func TestAJobSendsUnderNoOtherAddressThanItsNodes(t *testing.T) {
	t.Run("which it has itself", func(t *testing.T) {
		c := newCluster(t)
		c.both(jobJ, "prolog")
		c.serve(c.h.Path, "h", "0.0.0.0", "53")
		for _, from := range []string{"10.0.0.1", "10.9.0.1"} {
			c.check(kinds("from "+from, c.job(jobJ, 0), "10.9.0.99 53 ", "h<10.9.0.1")...)
			c.check(call{what: "from " + from, path: c.job(jobJ, 0), to: "udp 10.9.0.99 53", want: "h<10.9.0.1", more: "uid=1000 dev=uplink0 src=" + from})
		}
		c.both(jobJ, "epilog")
		c.same()
	})
	t.Run("which it does not have", func(t *testing.T) {
		b := wayBed(t)
		b.first.run(t, b.node, b.state, "prolog", never)
		inFar := hears(t, b.far)
		// An address of the job's HCA, another job's, another host's, and the node's own.
		for _, from := range []string{"10.0.0.9", "198.19.0.2", "10.9.0.77", "10.9.0.2"} {
			if err := sendAs(b.netns(b.first), from, "10.9.0.1", from); err != nil {
				t.Fatalf("from %s: %v", from, err)
			}
		}
		// What comes later has come when the others do.
		if err := sendAs(b.netns(b.first), "198.19.0.1", "10.9.0.1", "from its own"); err != nil {
			t.Fatal(err)
		}
		if got := heard(t, inFar); got != "from its own" {
			t.Errorf("a host has heard what the job sent from %s", got)
		}
		b.first.run(t, b.node, b.state, "epilog", never)
	})
}
