package main

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	logMaxKeys = 20
	maxKeys    = 1 << logMaxKeys

	reservedKey = 0x100 // all memory, for queue pairs that may have it
)

// rights are what a memory key allows.
type rights int

const (
	localRead rights = 1 << iota
	localWrite
	remoteRead
	remoteWrite
	remoteAtomic
	remote = remoteRead | remoteWrite | remoteAtomic
)

// A syndrome says in a completion what was wrong.
type syndrome byte

const (
	fine            syndrome = 0
	localProtection syndrome = 0x04
	flushed         syndrome = 0x05
	remoteAccess    syndrome = 0x13
	remoteOperation syndrome = 0x14
	lost            syndrome = 0x15 // tried often enough
	noRoom          syndrome = 0x16
)

// A permission is one to reach memory by keys of a protection domain.
type permission struct {
	domain   uint64
	right    rights
	reserved bool // the reserved key is allowed
}

// asks returns an access by a queue pair that needs a right.
func (p *queuePair) asks(right rights) permission {
	a := p.permission
	a.right = right
	return a
}

// denied says what is wrong with an access that is not allowed.
func (a permission) denied() syndrome {
	if a.right&remote != 0 {
		return remoteAccess
	}
	return localProtection
}

// A memoryKey says which of the guest's pages a program's address means, and who may reach them.
type memoryKey struct {
	low     byte // of the key; the rest is its index
	direct  bool // the guest's own addresses
	domain  uint64
	rights  rights
	start   uint64
	length  uint64
	endless bool
	logPage int
	pages   []uint64
}

func (f *firmware) createKey(in, out buffer) int {
	c := in.part("create_mkey_in.memory_key_mkey_entry")
	n := f.number("mkey", 0x100, maxKeys)
	if n == 0 {
		return statusNoResources
	}
	const physical, translated = 0, 1
	mode := c.get("mkc.access_mode_1_0")
	k := &memoryKey{low: byte(c.get("mkc.mkey_7_0")), direct: mode == physical, domain: c.get("mkc.pd"),
		start: c.get("mkc.start_addr"), length: c.get("mkc.len"), endless: c.get("mkc.length64") != 0, logPage: int(c.get("mkc.log_page_size"))}
	for name, right := range map[string]rights{"mkc.lr": localRead, "mkc.lw": localWrite, "mkc.rr": remoteRead, "mkc.rw": remoteWrite, "mkc.a": remoteAtomic} {
		if c.get(name) != 0 && c.get("mkc.free") == 0 && mode <= translated {
			k.rights |= right
		}
	}
	if in.get("create_mkey_in.translations_octword_actual_size") != 0 {
		pages := in.part("create_mkey_in.klm_pas_mtt")
		for i := 0; i+8 <= len(pages); i += 8 {
			k.pages = append(k.pages, binary.BigEndian.Uint64(pages[i:])&^7)
		}
	}
	f.keys[n] = k
	out.setWord(2, n)
	return statusOK
}

// reach returns the guest's memory at an address under a key, in pieces, or says why not.
func (f *firmware) reach(a permission, key uint32, address uint64, n int) (pieces []buffer, bad syndrome) {
	if n == 0 {
		return nil, fine
	}
	if key == reservedKey && a.reserved && a.right&remote == 0 {
		return []buffer{f.memory.at(address, n)}, fine
	}
	k := f.keys[key>>8]
	if k == nil || k.low != byte(key) || k.domain != a.domain || k.rights&a.right != a.right || !k.spans(address, n) {
		return nil, a.denied()
	}
	if k.direct {
		return []buffer{f.memory.at(address, n)}, fine
	}
	if k.logPage < 12 || k.logPage > 40 {
		panic(fault{f.memory, fmt.Sprintf("a memory key with pages of 2^%d bytes", k.logPage)})
	}
	first := k.start &^ (1<<k.logPage - 1)
	for n > 0 {
		off := address - first
		page, within := off>>k.logPage, off&(1<<k.logPage-1)
		size := min(n, 1<<k.logPage-int(within))
		if page >= uint64(len(k.pages)) {
			return nil, a.denied()
		}
		pieces = append(pieces, f.memory.at(k.pages[page]+within, size))
		address, n = address+uint64(size), n-size
	}
	return pieces, fine
}

// spans tells whether so many bytes lie within a key's.
func (k *memoryKey) spans(address uint64, n int) bool {
	off := address - k.start
	return k.endless || address >= k.start && off <= k.length && uint64(n) <= k.length-off
}

func (f *firmware) load(a permission, key uint32, address uint64, n int) ([]byte, syndrome) {
	pieces, bad := f.reach(a, key, address, n)
	return slices.Concat(pieces...), bad
}

func (f *firmware) store(a permission, key uint32, address uint64, data []byte) syndrome {
	pieces, bad := f.reach(a, key, address, len(data))
	for _, piece := range pieces {
		data = data[copy(piece, data):]
	}
	return bad
}
