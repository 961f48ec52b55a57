package rdma

import (
	"errors"
	"testing"

	"gresnet/lib/kernel/netlink"
)

// Which ids of RDMA-CM the kernel itself gives devices for servers at all addresses, cma.c:cma_listen_on_dev.
func TestAnIDOfAServerAtAllAddressesIsNoUse(t *testing.T) {
	ids := resource{cmdResIDs, 30}
	port := netlink.AppendUint32(nil, attrPortIndex, 1)
	peer := netlink.Append(nil, attrResDestination, make([]byte, 28))
	process := netlink.AppendUint32(nil, attrResPID, 7)
	module := netlink.AppendText(nil, attrResKernName, "nfsd")
	for what, c := range map[string]struct {
		id   [][]byte
		used bool
	}{
		"a server at all addresses":         {[][]byte{process}, false},
		"one whose process has ended":       {nil, false},
		"a server at an address of the HCA": {[][]byte{port, process}, true},
		"a connection":                      {[][]byte{port, peer, process}, true},
		"an id that is to have a port soon": {[][]byte{peer, process}, true},
		"the kernel's server":               {[][]byte{module}, true},
	} {
		var id []byte
		for _, a := range c.id {
			id = append(id, a...)
		}
		found := map[Holder]bool{}
		message := netlink.Append(nil, ids.table, netlink.Append(nil, ids.table+1, id))
		if err := ids.read(message, found, func(Holder) bool { return true }); err != nil || (len(found) > 0) != c.used {
			t.Errorf("%s: found %v, %v", what, found, err)
		}
		if c.used {
			continue
		}
		// A table has no such ids but of RDMA-CM.
		pds := resource{14, 46}
		message = netlink.Append(nil, pds.table, netlink.Append(nil, pds.table+1, id))
		if err := pds.read(message, found, func(Holder) bool { return true }); err != nil || len(found) != 1 {
			t.Errorf("%s as another resource: found %v, %v", what, found, err)
		}
	}
}

func TestAListThatIsTooLongIsLeft(t *testing.T) {
	ids := resource{cmdResIDs, 30}
	err := ids.read(netlink.Append(nil, ids.table, netlink.Append(nil, ids.table+1, nil)), map[Holder]bool{}, func(Holder) bool { return false })
	if !errors.Is(err, netlink.ErrStop) {
		t.Errorf("the list ends with %v", err)
	}
}
