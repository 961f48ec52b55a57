package rdma

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// FuzzAnswer holds what is made of an answer to what stands in it.
func FuzzAnswer(f *testing.F) {
	f.Add(netlink.Append(netlink.AppendText(ofDevice(3), attrDevName, "mlx5_3"), attrNodeGUID, make([]byte, 8)))
	f.Add(netlink.AppendText(netlink.Append(nil, attrCharDev, make([]byte, 8)), attrCharDevType, "uverbs")[:9])
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, m []byte) {
		a, err := netlink.Parse(m)
		if err != nil {
			return
		}
		d := devicesIn([]netlink.Attributes{a})[0]
		if len(d.Name) > len(m) || bytes.IndexByte([]byte(d.Name), 0) >= 0 || d.GUID != "" && len(d.GUID) != len("0002:c903:00ab:cdef") {
			t.Errorf("device %+v", d)
		}
	})
}

// FuzzHolders reads no more holders out of a message than it has entries.
func FuzzHolders(f *testing.F) {
	pds := resource{14, 46}
	one := netlink.Append(nil, pds.table+1, netlink.AppendUint32(nil, attrResPID, 7))
	f.Add(netlink.Append(nil, pds.table, netlink.Append(one, pds.table+1, netlink.AppendText(nil, attrResKernName, "ib_ipoib"))))
	f.Add([]byte{4, 0, 46, 0, 4})
	f.Fuzz(func(t *testing.T, message []byte) {
		holders, seen := map[Holder]bool{}, 0
		err := pds.read(message, holders, func(Holder) bool { seen++; return true })
		if len(holders) > seen || err == nil && seen > (len(message)+3)/unix.SizeofRtAttr {
			t.Errorf("%d holders of %d entries in %d bytes", len(holders), seen, len(message))
		}
		for h := range holders {
			if len(h.Kernel) > len(message) {
				t.Errorf("holder %+v", h)
			}
		}
	})
}
