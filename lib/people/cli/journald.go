package cli

import (
	"encoding/binary"
	"strconv"
	"syscall"

	"github.com/coreos/go-systemd/v22/journal"
)

// journaldSocket is where journald takes entries (systemd-journald.service(8)).
const journaldSocket = "/run/systemd/journal/socket"

// journald sends entries to the systemd journal as go-systemd does, but sleeps where that
// would spin.
type journald struct{ *datagram }

// send waits until journald has room for an entry. One that is larger than what a socket
// may send goes as a file, which go-systemd knows how to do.
func (j journald) send(text string, p journal.Priority, fields map[string]string) error {
	err := j.Send(entry(text, p, fields))
	if err == syscall.EMSGSIZE || err == syscall.ENOBUFS {
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
