package link

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// FuzzMessages holds each kind of message to what restoring relies on: what was
// cleaned and is sent back for an interface cleans to the same, and goes
// through the journal's JSON unchanged.
func FuzzMessages(f *testing.F) {
	addr := append([]byte{unix.AF_INET, 24, 0, 0, 7, 0, 0, 0}, netlink.Append(nil, unix.IFA_LOCAL, []byte{10, 0, 0, 1})...)
	addr = netlink.Append(addr, unix.IFA_CACHEINFO, bytes.Repeat([]byte{9}, 16))
	route := netlink.Append(make([]byte, routeHead), unix.RTA_OIF, []byte{7, 0, 0, 0})
	route = netlink.Append(route, unix.RTA_MULTIPATH, []byte{8, 0, 1, 0, 7, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0})
	nexthop := netlink.Append(make([]byte, nexthopHead), unix.NHA_OIF, []byte{7, 0, 0, 0})
	neighbour := []byte{unix.AF_INET, 0, 0, 0, 7, 0, 0, 0, unix.NUD_PERMANENT, 0, 0, unix.RTN_UNICAST}
	for _, seed := range [][]byte{addr, route, nexthop, neighbour, nil, {255, 0}} {
		f.Add(seed)
	}
	const index = 0x5eed // of no message, see below
	kinds := []struct {
		name  string
		clean func([]byte) (Message, error)
		on    func(Message, int) []byte
		look  func(Message)
	}{
		{"address", cleanAddr, Message.addrOn, func(m Message) { m.Addr(); m.addrKey() }},
		{"route", func(m []byte) (Message, error) { return cleanRoute(m, index) }, Message.routeOn, func(m Message) { m.routeKey(); m.needsOthers(nil) }},
		{"next hop object", cleanNexthop, Message.nexthopOn, func(m Message) { m.nexthopID() }},
		{"neighbour", cleanNeighbour, Message.neighbourOn, func(m Message) { m.neighbour() }},
		{"policy rule", cleanRule, func(m Message, _ int) []byte { return m }, func(m Message) { m.key() }},
	}
	f.Fuzz(func(t *testing.T, dumped []byte) {
		if bytes.Contains(dumped, native.AppendUint32(nil, index)) {
			return
		}
		if i, err := describe(dumped); err == nil {
			toldOfInterface(i.list) // needs no more than to end
		}
		for _, k := range kinds {
			before := bytes.Clone(dumped)
			m, err := k.clean(dumped)
			if !bytes.Equal(before, dumped) {
				t.Fatalf("cleaning a %s changed what was dumped", k.name)
			}
			if err != nil || m == nil {
				continue
			}
			k.look(m)
			again, err := k.clean(k.on(m, index))
			if err != nil || !bytes.Equal(again, m) {
				t.Errorf("%s %x is sent back and dumped as %x, %v", k.name, m, again, err)
			}
			var read Message
			text, err := json.Marshal(m)
			if err == nil {
				err = json.Unmarshal(text, &read)
			}
			if err != nil || !bytes.Equal(read, m) {
				t.Errorf("%s %x is noted and read as %x, %v", k.name, m, read, err)
			}
		}
	})
}

// FuzzEthtool holds the answers of ethtool to what restoring relies on: an interface that
// has what was read of it needs no change, and what was read is read so a second time.
func FuzzEthtool(f *testing.F) {
	head := []byte{unix.ETHTOOL_MSG_CHANNELS_GET_REPLY, unix.ETHTOOL_GENL_VERSION, 0, 0}
	channels := netlink.Append(head, unix.ETHTOOL_A_CHANNELS_RX_MAX, []byte{8, 0, 0, 0})
	channels = netlink.Append(channels, unix.ETHTOOL_A_CHANNELS_RX_COUNT, []byte{3, 0, 0, 0})
	bit := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BIT_NAME, []byte("rx-gro\x00"))
	bits := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, bit)
	set := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, bits)
	features := netlink.Append(head, unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, set)
	for _, seed := range [][]byte{channels, features, head, nil, {255, 0, 0, 0, 3, 0, 0, 0}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		list, err := genlAttributes([][]byte{answer})
		if err != nil {
			return
		}
		if names, err := wanted(list); err == nil && !slices.IsSorted(names) {
			t.Errorf("the features %q are not in order", names)
		}
		// No answer of the kernel has one kind twice.
		once, seen := true, map[uint16]bool{}
		for a := range list.All() {
			kind := a.Type()
			once, seen[kind] = once && !seen[kind], true
		}
		for _, kind := range ethtoolKinds() {
			m := kind.settable(list)
			if again, err := netlink.Parse(m); err != nil || !bytes.Equal(kind.settable(again), m) {
				t.Errorf("the %s %x are read as %x, %v", kind.name, m, again, err)
			}
			if c := changed(m, m); once && c != nil {
				t.Errorf("the %s %x are to be changed by %x to be the same", kind.name, m, c)
			}
		}
	})
}

// FuzzPriorities holds what the kernel says of data center bridging to what restoring
// relies on: the entries that were read are all in the request that gives them back.
func FuzzPriorities(f *testing.F) {
	app := netlink.Append(nil, 1, []byte{5, 3, 26, 0})
	app = netlink.Append(app, 1, []byte{1, 1, 0, 0})
	ieee := netlink.Append(netlink.Append(nil, dcbApp|unix.NLA_F_NESTED, app), dcbRewrite, netlink.Append(nil, 1, []byte{5, 2, 10, 0}))
	answer := netlink.Append(dcbRequest(dcbIEEEGet, "hca0"), dcbIEEE, ieee)
	managed := netlink.Append(answer[:len(answer):len(answer)], dcbMode, []byte{dcbManaged})
	for _, seed := range [][]byte{answer, managed, nil, {0, 0, 0, 0, 3, 0, 0, 0}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		all, err := readPriorities(answer)
		if err != nil {
			return
		}
		for _, m := range all {
			m.priority()
		}
		again, err := readPriorities(netlink.Append(dcbRequest(dcbIEEESet, "hca0"), dcbIEEE, tablesOf(all)))
		if err != nil || len(again) != len(all) || len(missing(all, again, Message.key)) > 0 {
			t.Errorf("%x are sent back as %x, %v", all, again, err)
		}
	})
}
