package node

import "fmt"

// PKey is a P_Key: the number of a partition and, in the highest bit, whether who has it is a full
// member of the partition. 0: none.
type PKey uint16

// fullMember is the bit of full members. A limited member reaches full members only.
const fullMember = 0x8000

// LastPKey is the highest P_Key.
const LastPKey = 0xffff

// String returns how people write it.
func (k PKey) String() string { return fmt.Sprintf("0x%04x", uint16(k)) }

// PKeyText is a P_Key that JSON has as people write it. Journals have a PKey, which is a number there.
type PKeyText PKey

// String returns how people write it.
func (k PKeyText) String() string { return PKey(k).String() }

// MarshalText returns how JSON has it.
func (k PKeyText) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Partition returns the partition's number, as programs are told it.
func (k PKey) Partition() PKey { return k &^ fullMember }

// Full returns the same partition's P_Key of full members. The kernel gives its interfaces no other
// (ipoib_main.c:ipoib_ndo_init).
func (k PKey) Full() PKey { return k | fullMember }

// IsOne tells a P_Key that can be given: partition 0 is none.
func (k PKey) IsOne() bool { return k.Partition() != 0 }

// PKeyEntry is an entry of a port's table of P_Keys.
type PKeyEntry struct {
	Index int
	PKey  PKey
}

// FindPKey finds a partition in a port's table. Of several entries it takes the first full member's, as
// the kernel does (cache.c:ib_find_cached_pkey). The subnet manager alone says which member a port
// is, so the bit for it in k makes no difference.
func FindPKey[K ~uint16](table []K, k PKey) (found PKeyEntry, is bool) {
	for i, entry := range table {
		have := PKey(entry)
		if have.Partition() != k.Partition() || is && have != have.Full() {
			continue
		}
		found, is = PKeyEntry{i, have}, true
		if have == have.Full() {
			return found, true
		}
	}
	return found, is
}
