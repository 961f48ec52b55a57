package link

import (
	"bytes"
	"encoding/json"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// FuzzMessages holds each kind of message to what restoring relies on: what was
// cleaned and is sent back for an interface cleans to the same, and goes
// through the journal's JSON unchanged.
func FuzzMessages(f *testing.F) {
	addr := append([]byte{unix.AF_INET, 24, 0, 0, 7, 0, 0, 0}, netlink.Append(nil, unix.IFA_LOCAL, []byte{10, 0, 0, 1})...)
	addr = netlink.Append(addr, unix.IFA_CACHEINFO, bytes.Repeat([]byte{9}, 16))
	for _, seed := range [][]byte{addr, nil, {255, 0}} {
		f.Add(seed)
	}
	const index = 0x5eed // of no message, see below
	kinds := []struct {
		name  string
		clean func([]byte) (Message, error)
		on    func(Message, int) []byte
		look  func(Message)
	}{
		{"address", cleanAddr, Message.addrOn, func(m Message) { m.Addr(); m.addrKey() }},
	}
	f.Fuzz(func(t *testing.T, dumped []byte) {
		if bytes.Contains(dumped, native.AppendUint32(nil, index)) {
			return
		}
		describe(dumped) // needs no more than to end
		for _, k := range kinds {
			before := bytes.Clone(dumped)
			m, err := k.clean(dumped)
			if !bytes.Equal(before, dumped) {
				t.Fatalf("cleaning a %s changed what was dumped", k.name)
			}
			if err != nil || m == nil {
				continue
			}
			k.look(m)
			again, err := k.clean(k.on(m, index))
			if err != nil || !bytes.Equal(again, m) {
				t.Errorf("%s %x is sent back and dumped as %x, %v", k.name, m, again, err)
			}
			var read Message
			text, err := json.Marshal(m)
			if err == nil {
				err = json.Unmarshal(text, &read)
			}
			if err != nil || !bytes.Equal(read, m) {
				t.Errorf("%s %x is noted and read as %x, %v", k.name, m, read, err)
			}
		}
	})
}
