package link

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// FuzzDescribed holds what is made of an interface as the kernel describes it to what stands there.
func FuzzDescribed(f *testing.F) {
	f.Add(netlink.AppendText(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, "hca0"))
	f.Fuzz(func(t *testing.T, m []byte) {
		before := bytes.Clone(m)
		i, err := describe(m)
		if !bytes.Equal(before, m) {
			t.Fatal("a look changed what was dumped")
		}
		if err == nil && len(i.Name) > len(m) {
			t.Errorf("%q is the name in % x", i.Name, m)
		}
	})
}
