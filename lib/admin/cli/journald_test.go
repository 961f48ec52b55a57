package cli

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"gresnet/test/await"
)

// socketAndJournald returns a socket in the place of journald's, and what sends to it.
func socketAndJournald(t *testing.T) (r *net.UnixConn, d *journald) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	r, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if d, err = openJournald(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(d.fd) })
	return r, d
}

func TestNoLineFeedInAValueBeginsAnotherField(t *testing.T) {
	r, d := socketAndJournald(t)
	want := map[string]string{"MESSAGE": "job 4711: a line\nPRIORITY=0\n", "PRIORITY": "4", "HCA": "0002:c903:0000:0100", "REASON": ""}
	if err := d.send(want["MESSAGE"], journal.PriWarning, map[string]string{"HCA": want["HCA"], "REASON": ""}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	n, err := r.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	b = b[:n]
	got := map[string]string{}
	for len(b) > 0 {
		name, rest, _ := bytes.Cut(b, []byte{'\n'})
		size := binary.LittleEndian.Uint64(rest)
		got[string(name)] = string(rest[8 : 8+size])
		if rest[8+size] != '\n' {
			t.Fatalf("%s does not end with a line feed", name)
		}
		b = rest[8+size+1:]
	}
	if !maps.Equal(got, want) {
		t.Errorf("journald has %q, wanted %q", got, want)
	}
}

// Else Go's runtime would ask epoll, which says at once that there is room.
func TestWhoSendsToAReceiverWithoutRoomSleepsInTheKernel(t *testing.T) {
	r, d := socketAndJournald(t)
	if flags, err := unix.FcntlInt(uintptr(d.fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Fatalf("the socket's flags are %#o (%v), wanted a blocking one", flags, err)
	}
	var err error
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
	go func() { sent <- d.send("a message", journal.PriInfo, nil) }()
	for b := make([]byte, 1<<10); ; {
		n, err := r.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b[:n], []byte("a message")) {
			break
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
