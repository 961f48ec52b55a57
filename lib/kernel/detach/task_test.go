package detach

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// saying returns a process that a test speaks for.
func saying(t *testing.T) (*Process, func(message string)) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { theirs.Close() })
	cmd := exec.Command("sleep", "infinity")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(pair[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return &Process{cmd, conn.(*net.UnixConn), make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))}, func(message string) {
		if _, err := theirs.WriteString(message); err != nil {
			t.Error(err)
		}
	}
}

func TestATaskThatStartsLateHasAllOfItsTimeAndOneThatIsHeldUpHasNoMore(t *testing.T) {
	const left = 2 * time.Second
	for _, ends := range []bool{true, false} {
		t.Run(fmt.Sprintf("ends is %t", ends), func(t *testing.T) {
			t.Parallel()
			p, say := saying(t)
			time.AfterFunc(left*3/2, func() { // the program starts late, on a busy node
				say(at)
				say("an answer")
				if say(at + "/proc/1"); ends {
					say(done)
				}
			})
			heard := ""
			where, err := p.ask(left, 0, func(message string, _ int) error { heard = message; return nil })
			if heard != "an answer" || where != "/proc/1" || ends != (err == nil) || !ends && !errors.Is(err, ErrHeldUp) {
				t.Errorf("heard %q at %q: %v", heard, where, err)
			}
		})
	}
}
