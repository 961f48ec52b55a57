package inet

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/messagetest"
)

func FuzzAddresses(f *testing.F) {
	m := append([]byte{unix.AF_INET, 24, 0, 0, 7, 0, 0, 0}, netlink.Append(nil, unix.IFA_LOCAL, []byte{10, 0, 0, 1})...)
	f.Add(netlink.Append(m, unix.IFA_CACHEINFO, bytes.Repeat([]byte{9}, 16)))
	messagetest.Fuzz(f, CleanAddress, netlink.On[Address], func(m Address) {
		m.Addr()
		m.Key()
		m.Joins()
		m.Untested()
		m.Aged(7)
	})
}
