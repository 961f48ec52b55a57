package netlink

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnAttributeIsReadAsItWasWritten(t *testing.T) {
	m := AppendUint32(AppendText(Append(nil, 3|unix.NLA_F_NESTED, AppendText(nil, 1, "inner")), 7, "eth0"), 9, 1<<31)
	if len(m)%4 != 0 {
		t.Errorf("a message of %d bytes", len(m))
	}
	list, err := Parse(m)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := list.Nested(3)
	if err != nil || inner.Text(1) != "inner" || list.Text(7) != "eth0" || list.Number(9) != 1<<31 {
		t.Errorf("% x has %q, %q and %d, %v", m, inner.Text(1), list.Text(7), list.Number(9), err)
	}
	if v, there := list.Find(8); there || v != nil || list.Text(8) != "" || list.Number(8) != 0 {
		t.Errorf("% x has attribute 8, % x", m, v)
	}
	var again []byte
	for a := range list.All() {
		again = Append(again, a.Kind, a.Value)
	}
	if !bytes.Equal(again, m) {
		t.Errorf("% x is written again as % x", m, again)
	}
}

func TestANumberHasTheWidthThatTheKernelGaveIt(t *testing.T) {
	for _, c := range []struct {
		value []byte
		want  uint64
	}{
		{nil, 0}, {[]byte{7}, 7}, {native.AppendUint16(nil, 1<<15), 1 << 15}, {native.AppendUint32(nil, 1<<31), 1 << 31},
		{native.AppendUint64(nil, 1<<63), 1 << 63}, {[]byte{1, 2, 3}, 0},
	} {
		if got := Number(c.value); got != c.want {
			t.Errorf("% x is %d, wanted %d", c.value, got, c.want)
		}
	}
}

// FuzzAttributes holds what is read of a message to what stands in it: each attribute is a part
// of it, and what was read is written and read the same.
func FuzzAttributes(f *testing.F) {
	f.Add(AppendText(AppendUint32(nil, 1, 3), 2, "mlx5_3"))
	f.Add(Append(nil, 72|unix.NLA_F_NESTED, make([]byte, 8))[:9])
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, m []byte) {
		list, err := Parse(m)
		if err != nil {
			if list != nil {
				t.Errorf("%v, and yet % x", err, list)
			}
			return
		}
		var again []byte
		for a := range list.All() {
			if !bytes.Contains(m, a.Value) || len(a.Value)+headSize > len(m) {
				t.Errorf("attribute %d is %q, which %q has not", a.Kind, a.Value, m)
			}
			first, there := list.Find(a.Type())
			if !there || len(first) > len(m) {
				t.Errorf("attribute %d is not found in % x", a.Type(), m)
			}
			again = Append(again, a.Kind, a.Value)
		}
		read, err := Parse(again)
		if err != nil {
			t.Fatalf("% x is written as % x, %v", m, again, err)
		}
		var twice []byte
		for a := range read.All() {
			twice = Append(twice, a.Kind, a.Value)
		}
		if !bytes.Equal(twice, again) {
			t.Errorf("% x is written and read as % x", again, twice)
		}
	})
}
