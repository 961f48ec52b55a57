package netlink

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Socket {
	t.Helper()
	n, err := Open(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// link returns the head of a question after an interface, 0: after all.
func link(index uint32) []byte {
	head := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(head[4:], index)
	return head
}

func TestAnswersAreThoseOfTheRequestAndOfItsKind(t *testing.T) {
	n := open(t)
	interfaces, err := filepath.Glob("/sys/class/net/*/ifindex")
	if err != nil || len(interfaces) == 0 {
		t.Fatalf("this machine has the interfaces %v, %v", interfaces, err)
	}
	const loopback = 1
	for range 3 {
		if all, err := n.Do(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWLINK, link(0)); err != nil || len(all) != len(interfaces) {
			t.Errorf("a dump has %d of %d interfaces, %v", len(all), len(interfaces), err)
		}
		if one, err := n.Do(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, link(loopback)); err != nil || len(one) != 1 || native.Uint32(one[0][4:]) != loopback {
			t.Errorf("lo is %x, %v", one, err)
		}
		if none, err := n.Do(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWADDR, link(0)); err != nil || none != nil {
			t.Errorf("answers of another kind are %x, %v", none, err)
		}
	}
	if got := n.asked(); got != 9 {
		t.Errorf("it counts %d requests, wanted 9", got)
	}
}

func TestWhatTheKernelRefusesIsItsErrno(t *testing.T) {
	n := open(t)
	for range 2 {
		if _, err := n.Do(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, link(1<<30)); err != unix.ENODEV {
			t.Errorf("an interface that is not there: %v", err)
		}
		if _, err := n.Do(unix.RTM_GETLINK, unix.NLM_F_ACK, unix.RTM_NEWLINK, []byte{1, 2}); err != unix.EINVAL {
			t.Errorf("half a head: %v", err)
		}
	}
	if _, err := Open(unix.NETLINK_ROUTE + 1000); !errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Errorf("a protocol that is not there: %v", err)
	}
}

func TestNobodyWaitsForAnAnswerThatIsNotThere(t *testing.T) {
	begun := time.Now()
	if _, err := open(t).receive(); err == nil || err.Error() != "the kernel has not answered" {
		t.Errorf("error %v after %s", err, time.Since(begun))
	}
}

func TestASocketThatIsClosedLeavesNothing(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := count()
	for range 10 {
		n, err := Open(unix.NETLINK_ROUTE)
		if err != nil {
			t.Fatal(err)
		}
		n.Close()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
}

func FuzzMessages(f *testing.F) {
	n := new(Socket)
	f.Add(append(n.Request(unix.RTM_NEWLINK, unix.NLM_F_MULTI, []byte("body!")), n.Request(unix.NLMSG_DONE, 0, []byte{0, 0, 0, 0})...))
	f.Add(n.Request(unix.NLMSG_ERROR, 0, []byte{0xff, 0xff, 0xff, 0xff})[:17])
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) > 0; {
			m, left, err := next(rest)
			if err != nil {
				return
			}
			if len(left) >= len(rest) || len(m.body) > len(rest)-unix.SizeofNlMsghdr {
				t.Fatalf("of %d bytes %d are left, and a message has %d", len(rest), len(left), len(m.body))
			}
			m.result(false)
			rest = left
		}
	})
}
