package cli

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/test/await"
)

// Else Go's runtime would ask epoll, which says at once that there is room.
func TestWhoSendsToAReceiverWithoutRoomSleepsInTheKernel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	r, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d, err := openDatagram(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if flags, err := unix.FcntlInt(uintptr(d.fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Fatalf("the socket's flags are %#o (%v), wanted a blocking one", flags, err)
	}
	for err == nil {
		err = unix.Sendto(d.fd, []byte("x"), unix.MSG_DONTWAIT, d.to)
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(await.Most(t))); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- d.Send([]byte("a message")) }()
	for b := make([]byte, 1<<10); ; {
		n, err := r.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if string(b[:n]) == "a message" {
			break
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
