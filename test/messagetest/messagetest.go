// Package messagetest holds what is made of the kernel's messages to what restoring relies on.
package messagetest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"
)

// Index is of no interface in what Fuzz tries.
const Index = 0x5eed

// Fuzz holds a kind of message to what restoring relies on: what was cleaned and is sent back
// for an interface cleans to the same, and goes through the journal's JSON unchanged. look has
// no more to do than to end.
func Fuzz[M ~[]byte](f *testing.F, clean func([]byte) (M, error), on func(M, int) []byte, look func(M)) {
	f.Add([]byte(nil))
	f.Add([]byte{255, 0})
	f.Fuzz(func(t *testing.T, dumped []byte) {
		if bytes.Contains(dumped, binary.NativeEndian.AppendUint32(nil, Index)) {
			return
		}
		before := bytes.Clone(dumped)
		m, err := clean(dumped)
		if !bytes.Equal(before, dumped) {
			t.Fatal("cleaning changed what was dumped")
		}
		if err != nil || m == nil {
			return
		}
		look(m)
		again, err := clean(on(m, Index))
		if err != nil || !bytes.Equal(again, m) {
			t.Errorf("%x is sent back and dumped as %x, %v", []byte(m), []byte(again), err)
		}
		var read M
		text, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil || !bytes.Equal(read, m) {
			t.Errorf("%x is noted and read as %x, %v", []byte(m), []byte(read), err)
		}
	})
}
