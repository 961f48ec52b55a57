package link

import (
	"slices"

	"golang.org/x/sys/unix"
)

// table has the routes of a family, for one who looks at several interfaces: to tell those
// of one the kernel goes through all that the node has.
type table struct {
	through map[int][][]byte // routes as dumped, by the indices of the interfaces that they go through
	sourced [][]byte         // those that prefer a source

	// hidden says that not all can be told by their interfaces: a route over a next hop
	// object need not say where that leads (net.ipv4.nexthop_compat_mode).
	hidden bool
}

// table is the table of a family, read once within Once.
func (c *Conn) table(family byte) (*table, error) {
	if c.known == nil {
		return c.readTable(family)
	}
	if c.known.tables[family] == nil {
		t, err := c.readTable(family)
		if err != nil {
			return nil, err
		}
		c.known.tables[family] = t
	}
	return c.known.tables[family], nil
}

func (c *Conn) readTable(family byte) (t *table, err error) {
	again := func() { t = &table{through: map[int][][]byte{}} }
	again()
	err = c.socket.Each(unix.RTM_GETROUTE, unix.NLM_F_DUMP, unix.RTM_NEWROUTE, ofFamily(family, nil), again, func(m []byte) error {
		// A kernel without IPv6 answers for all families that it has.
		if len(m) >= routeHead && m[0] == family {
			t.add(slices.Clone(m))
		}
		return nil
	})
	return t, err
}

// add adds a route, in one way through what may be thousands.
func (t *table) add(m []byte) {
	list, err := attributes(m[routeHead:])
	if err != nil {
		return
	}
	object, led := false, false
	lead := func(b []byte) {
		index := int(native.Uint32(b))
		// Two hops of one route may go through one interface.
		if same := t.through[index]; len(same) == 0 || &same[len(same)-1][0] != &m[0] {
			t.through[index] = append(same, m)
		}
		led = true
	}
	for a := range list.all() {
		switch {
		case a.kind == unix.RTA_OIF && len(a.value) == 4:
			lead(a.value)
		case a.kind == unix.RTA_MULTIPATH:
			eachHop(a.value, func(hop []byte) { lead(hop[4:8]) })
		case a.kind == unix.RTA_PREFSRC:
			t.sourced = append(t.sourced, m)
		case a.kind == rtaNhID:
			object = true
		}
	}
	t.hidden = t.hidden || object && !led
}
