package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/poll"
)

// journaldSocket is where journald takes entries (systemd-journald.service(8)).
const journaldSocket = "/run/systemd/journal/socket"

// journald sends entries to the systemd journal as go-systemd does, by a Unix socket that blocks: who sends to a
// receiver that has no room sleeps until there is some (af_unix.c:unix_dgram_sendmsg). One of package net,
// which does not block and is connected to nobody, would keep a processor busy meanwhile: for epoll it is
// writable always (af_unix.c:unix_dgram_poll).
type journald struct {
	fd int
	to *unix.SockaddrUnix
}

// openJournald opens a socket for what is sent to a path. Whether anybody receives there the first send tells.
func openJournald(path string) (*journald, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket for %s: %w", path, err)
	}
	return &journald{fd, &unix.SockaddrUnix{Name: path}}, nil
}

// send waits until journald has room for an entry. One that is larger than what a socket
// may send goes as a file, which go-systemd knows how to do.
func (j *journald) send(text string, p journal.Priority, fields map[string]string) error {
	err := unix.Sendto(j.fd, entry(text, p, fields), unix.MSG_NOSIGNAL, j.to)
	if err == unix.EMSGSIZE || err == unix.ENOBUFS {
		return journal.Send(text, p, fields)
	}
	return err
}

// entry is one in journald's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL).
func entry(text string, p journal.Priority, fields map[string]string) (b []byte) {
	b = appendField(b, "PRIORITY", strconv.Itoa(int(p)))
	b = appendField(b, "MESSAGE", text)
	for name, value := range fields {
		b = appendField(b, name, value)
	}
	return b
}

// appendField adds a field in the form with a length, so that no line feed in a value can
// begin another one.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	b = append(b, value...)
	return append(b, '\n')
}

// errNotTaken is a line that the systemd journal did not take.
var errNotTaken = errors.New("the systemd journal does not take it")

// sender puts lines into the systemd journal, and waits for it no longer than it may:
// journald that is stopped, or stuck at its disk, reads nothing, and once some lines
// have nobody to read them, whoever sends the next one sleeps.
type sender struct {
	send    func(text string, p journal.Priority, fields map[string]string) error
	waits   time.Duration // in vain, until now
	pending chan error    // the result of a line that still waits; nil: none does
}

func (s *sender) Send(text string, p journal.Priority, fields map[string]string) error {
	if s.pending != nil {
		select {
		case <-s.pending:
			s.pending = nil
		default:
			return errNotTaken // nor would it take this one
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- s.send(text, p, fields) }()
	patience := max(poll.Journal-s.waits, poll.JournalLine)
	err, taken := poll.Hear(context.Background(), sent, patience)
	if !taken {
		s.waits += patience
		s.pending = sent
		return errNotTaken
	}
	return err
}
