package netlink

import (
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// headSize is the size of an attribute's head: 16 bits for its length, 16 for its kind.
const headSize = unix.SizeofNlAttr

// flags may be set in the kind of an attribute, and say what form its value has.
const flags = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER

// Attribute is one attribute of a message that was taken apart.
type Attribute struct {
	Kind  uint16 // as in the message, with its flags
	Value []byte
}

// Type returns the attribute's kind without its flags.
func (a Attribute) Type() uint16 { return a.Kind &^ flags }

// Append appends one attribute to a message.
func Append(m []byte, kind uint16, value []byte) []byte {
	m = native.AppendUint16(m, uint16(headSize+len(value)))
	m = native.AppendUint16(m, kind)
	m = append(m, value...)
	for len(m)%4 != 0 {
		m = append(m, 0)
	}
	return m
}

// AppendUint32 appends one attribute that is a number.
func AppendUint32(m []byte, kind uint16, value uint32) []byte {
	return Append(m, kind, native.AppendUint32(nil, value))
}

// AppendText appends one attribute that is a text, with the zero that the kernel has at the end of each.
func AppendText(m []byte, kind uint16, text string) []byte {
	return Append(m, kind, append([]byte(text), 0))
}

// Attributes is what follows a message's fixed head, if Parse has found it to be whole.
type Attributes []byte

// Parse checks that a message can be taken apart. Lengths come from the kernel, but a short
// read must not become a crash of a root program.
func Parse(m []byte) (Attributes, error) {
	for rest := m; len(rest) >= headSize; {
		size := int(native.Uint16(rest))
		if size < headSize || size > len(rest) {
			return nil, fmt.Errorf("netlink attribute of length %d, %d bytes are left", size, len(rest))
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return m, nil
}

// Behind returns the attributes behind a message's fixed head, if the message is whole. what names it.
func Behind(m []byte, head int, what string) (Attributes, error) {
	if len(m) < head {
		return nil, fmt.Errorf("%s message of %d bytes", what, len(m))
	}
	return Parse(m[head:])
}

// Kept returns the attributes of a message that Behind has read before, as a journal may have it.
func Kept(m []byte, head int) Attributes {
	list, _ := Parse(m[min(head, len(m)):])
	return list
}

// All returns the attributes in the kernel's order.
func (list Attributes) All() iter.Seq[Attribute] {
	return func(yield func(Attribute) bool) {
		for rest := list; len(rest) >= headSize; {
			size := int(native.Uint16(rest))
			if !yield(Attribute{native.Uint16(rest[2:]), rest[headSize:size]}) {
				return
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
	}
}

// Find returns the value of the first attribute of a kind, and whether there is one.
func (list Attributes) Find(kind uint16) (value []byte, there bool) {
	for a := range list.All() {
		if a.Type() == kind {
			return a.Value, true
		}
	}
	return nil, false
}

// Value returns the value of the first attribute of a kind, nil if there is none.
func (list Attributes) Value(kind uint16) []byte {
	v, _ := list.Find(kind)
	return v
}

// Number returns the value of an attribute as Number does.
func (list Attributes) Number(kind uint16) uint64 { return Number(list.Value(kind)) }

// Text returns the value of an attribute up to the first zero in it, "" if there is none.
func (list Attributes) Text(kind uint16) string { return unix.ByteSliceToString(list.Value(kind)) }

// Addr returns the address that an attribute has, the zero Addr if it has none.
func (list Attributes) Addr(kind uint16) netip.Addr {
	addr, _ := netip.AddrFromSlice(list.Value(kind))
	return addr
}

// Nested returns the attributes in the value of an attribute, none if it is not there.
func (list Attributes) Nested(kind uint16) (Attributes, error) { return Parse(list.Value(kind)) }

// Number returns a value of 8, 16, 32 or 64 bits, 0 if it is none.
func Number(v []byte) uint64 {
	switch len(v) {
	case 1:
		return uint64(v[0])
	case 2:
		return uint64(native.Uint16(v))
	case 4:
		return uint64(native.Uint32(v))
	case 8:
		return native.Uint64(v)
	}
	return 0
}
