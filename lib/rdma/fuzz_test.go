package rdma

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message is attributes as the kernel would send them.
func message(attrs ...*nl.RtAttr) []byte {
	var m []byte
	for _, a := range attrs {
		m = append(m, a.Serialize()...)
	}
	return m
}

// FuzzAnswer holds what is made of an answer to what stands in it: each
// attribute is a part of the message, and what no answer says is nothing.
func FuzzAnswer(f *testing.F) {
	f.Add(message(u32(attrDevIndex, 3), str(attrDevName, "mlx5_3"), nl.NewRtAttr(attrNodeGUID, make([]byte, 8))))
	f.Add(message(nl.NewRtAttr(attrCharDev, make([]byte, 8)), str(attrCharDevType, "uverbs"))[:9])
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, m []byte) {
		a, err := parse(m)
		if err != nil {
			if a != nil {
				t.Errorf("%v, and yet %v", err, a)
			}
			return
		}
		var again []byte
		for kind, value := range a {
			if !bytes.Contains(m, value) || len(value)+unix.SizeofRtAttr > len(m) {
				t.Errorf("attribute %d is %q, which %q has not", kind, value, m)
			}
			again = append(again, nl.NewRtAttr(int(kind), value).Serialize()...)
		}
		b, err := parse(again)
		if err != nil || len(b) != len(a) {
			t.Fatalf("%v is sent and read as %v, %v", a, b, err)
		}
		for kind, value := range a {
			if !bytes.Equal(b[kind], value) {
				t.Errorf("attribute %d is %q, sent and read %q", kind, value, b[kind])
			}
		}
		d := deviceOf(a)
		if len(d.Name) > len(m) || bytes.IndexByte([]byte(d.Name), 0) >= 0 || d.GUID != "" && len(d.GUID) != len("0002:c903:00ab:cdef") {
			t.Errorf("device %+v", d)
		}
	})
}

// FuzzHolders reads no more holders out of a table than it has entries.
func FuzzHolders(f *testing.F) {
	f.Add(message(nl.NewRtAttr(20, message(u32(attrResPID, 7))), nl.NewRtAttr(20, message(str(attrResKernName, "ib_ipoib")))))
	f.Add([]byte{4, 0, 1, 0, 4})
	f.Fuzz(func(t *testing.T, table []byte) {
		holders, err := holdersIn(table)
		if err != nil {
			if holders != nil {
				t.Errorf("%v, and yet %v", err, holders)
			}
			return
		}
		if len(holders) > (len(table)+3)/unix.SizeofRtAttr {
			t.Errorf("%d holders in %d bytes", len(holders), len(table))
		}
		for _, h := range holders {
			if len(h.Kernel) > len(table) {
				t.Errorf("holder %+v", h)
			}
		}
	})
}
