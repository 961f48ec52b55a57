package cli

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net"
	"path/filepath"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
)

func TestNoLineFeedInAValueBeginsAnotherField(t *testing.T) {
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
	want := map[string]string{"MESSAGE": "job 4711: a line\nPRIORITY=0\n", "PRIORITY": "4", "HCA": "0002:c903:0000:0100", "REASON": ""}
	if err := (journald{d}).send(want["MESSAGE"], journal.PriWarning, map[string]string{"HCA": want["HCA"], "REASON": ""}); err != nil {
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
