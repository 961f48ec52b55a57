// Package pkey has the words for P_Keys, which divide an InfiniBand fabric into partitions. It is
// pure.
package pkey

import "fmt"

// PKey is a P_Key: the number of a partition and, in the highest bit, whether who has it is a full
// member of the partition. 0: none.
type PKey uint16

// full is the bit of full members. A limited member reaches full members only.
const full = 0x8000

// Last is the highest P_Key.
const Last = 0xffff

// String returns how people write it.
func (k PKey) String() string { return fmt.Sprintf("0x%04x", uint16(k)) }

// Text is a P_Key that JSON has as people write it. Journals have a PKey, which is a number there.
type Text PKey

// String returns how people write it.
func (k Text) String() string { return PKey(k).String() }

// MarshalText returns how JSON has it.
func (k Text) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Partition returns the partition's number, as programs are told it.
func (k PKey) Partition() PKey { return k &^ full }

// Full returns the same partition's P_Key of full members. The kernel gives its interfaces no other
// (ipoib_main.c:ipoib_ndo_init).
func (k PKey) Full() PKey { return k | full }

// IsOne tells a P_Key that can be given: partition 0 is none.
func (k PKey) IsOne() bool { return k.Partition() != 0 }

// Entry is an entry of a port's table of P_Keys.
type Entry struct {
	Index int
	PKey  PKey
}

// Find finds a partition in a port's table. Of several entries it takes the first full member's, as
// the kernel does (cache.c:ib_find_cached_pkey). The subnet manager alone says which member a port
// is, so the bit for it in k makes no difference.
func Find[K ~uint16](table []K, k PKey) (found Entry, is bool) {
	for i, entry := range table {
		have := PKey(entry)
		if have.Partition() != k.Partition() || is && have != have.Full() {
			continue
		}
		found, is = Entry{i, have}, true
		if have == have.Full() {
			return found, true
		}
	}
	return found, is
}
