package main

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// A memory has windows to the guest's, by the addresses that a device sees. Only who holds big touches it.
type memory struct {
	parts []part
}

type part struct {
	address uint64
	bytes   []byte
}

// add opens a window to a part of a file.
func (m *memory) add(fd int, off, address, size uint64) error {
	var file syscall.Stat_t
	if err := syscall.Fstat(fd, &file); err != nil {
		return fmt.Errorf("map %#x bytes at %#x: %w", size, address, err)
	}
	// what lies beyond a file's end may be mapped, and kills who reads it
	if end := off + size; end < off || end > uint64(file.Size) || address+size < address {
		return fmt.Errorf("map %#x bytes at %#x of a file of %#x: %w", size, address, file.Size, syscall.EINVAL)
	}
	mapped, err := syscall.Mmap(fd, int64(off), int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %#x bytes at %#x: %w", size, address, err)
	}
	m.parts = append(m.parts, part{address, mapped})
	return nil
}

func (m *memory) remove(address, size uint64) {
	for i, p := range m.parts {
		if p.address == address && uint64(len(p.bytes)) == size {
			syscall.Munmap(p.bytes)
			m.parts = append(m.parts[:i], m.parts[i+1:]...)
			return
		}
	}
}

func (m *memory) clear() {
	for _, p := range m.parts {
		syscall.Munmap(p.bytes)
	}
	m.parts = nil
}

// at returns so many bytes of the guest's memory, which must be there.
func (m *memory) at(address uint64, size int) buffer {
	for _, p := range m.parts {
		if off := address - p.address; size >= 0 && address >= p.address && off < uint64(len(p.bytes)) && uint64(size) <= uint64(len(p.bytes))-off {
			return p.bytes[off:][:size:size]
		}
	}
	panic(fault{m, fmt.Sprintf("the guest has no %d bytes at %#x", size, address)})
}

// A field of a command or a register lies so many bits from its begin.
type field struct{ off, bits int }

// A buffer is what firmware and driver exchange: big-endian words of 32 bits.
type buffer []byte

// find returns where a field is, by the path of its names.
func find(path string) field {
	f, ok := fields[path]
	if !ok {
		panic("fields.go lacks " + path + ": see README.md")
	}
	return f
}

// get reads a field of at most 64 bits; one that lies beyond the end is 0.
func (b buffer) get(path string) uint64 {
	f := find(path)
	var v uint64
	for bit := f.off; bit < f.off+f.bits; {
		n := min(32-bit%32, f.off+f.bits-bit)
		v = v<<n | uint64(b.word(bit/32)>>(32-bit%32-n))&(1<<n-1)
		bit += n
	}
	return v
}

// set writes a field of at most 64 bits, or of nothing where it lies beyond the end.
func (b buffer) set(path string, v uint64) {
	f := find(path)
	for end := f.off + f.bits; end > f.off; {
		begin := max(f.off, (end-1)/32*32)
		n, word := end-begin, (end-1)/32
		mask := uint32(1<<n-1) << (32 - begin%32 - n)
		b.setWord(word, b.word(word)&^mask|uint32(v)<<(32-begin%32-n)&mask)
		v >>= n
		end = begin
	}
}

func (b buffer) word(i int) uint32 {
	if 4*i+4 > len(b) {
		return 0
	}
	return binary.BigEndian.Uint32(b[4*i:])
}

func (b buffer) setWord(i int, v uint32) {
	if 4*i+4 <= len(b) {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
}

// part returns what begins with that field, up to the buffer's end: many a structure is followed by
// a list of pages that its own length does not count.
func (b buffer) part(path string) buffer {
	return b[min(len(b), find(path).off/8):]
}

// opcode and mod tell which command this is.
func (b buffer) opcode() int { return int(b.word(0) >> 16) }
func (b buffer) mod() int    { return int(b.word(1) & 0xffff) }
