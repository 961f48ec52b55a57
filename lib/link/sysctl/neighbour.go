package sysctl

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Of linux/neighbour.h.
const (
	ndtmsgHead = 4

	ndtaParms = 6

	ndtpaIfindex = 1
)

// neighbourFile has the sysctls of ipv4/neigh and ipv6/neigh by NDTPA_*; times are reported in
// milliseconds as 64 bits, all else as 32 (neighbour.c:neightbl_fill_parms).
var neighbourFile = map[uint16]string{
	4:  "base_reachable_time_ms",
	5:  "retrans_time_ms",
	6:  "gc_stale_time",
	7:  "delay_first_probe_time",
	9:  "app_solicit",
	10: "ucast_solicit",
	11: "mcast_solicit",
	12: "anycast_delay",
	13: "proxy_delay",
	14: "proxy_qlen",
	15: "locktime",
	16: "unres_qlen_bytes",
	17: "mcast_resolicit",
	19: "interval_probe_time_ms",
}

// parameters are the neighbour tables' settings of each interface, as dumped: one answer a table.
type parameters map[int][][]byte

// crowd is how many interfaces there must be for the thirty files that one has of
// neighbour tables to be read sooner than the kernel tells those of all.
const crowd = 50

// addNeighbours adds the sysctls of an interface's neighbour tables, which the kernel
// tells of all interfaces at once, unless these are many: then they are in their files.
// It is asked again for an interface that was not there, had its own changed, or left.
func (c *Conn) addNeighbours(index int, t reported) error {
	if c.interfaces == 0 {
		c.interfaces = count()
	}
	if c.interfaces > crowd {
		return nil
	}
	if _, known := c.parameters[index]; !known {
		answers, err := c.route.Send(unix.RTM_GETNEIGHTBL, unix.NLM_F_DUMP, unix.RTM_NEWNEIGHTBL, make([]byte, ndtmsgHead))
		if err != nil {
			return fmt.Errorf("read the neighbour tables: %w", err)
		}
		if c.parameters, err = byInterface(answers); err != nil {
			return err
		}
		c.interfaces = max(c.interfaces, len(c.parameters))
		c.parameters[index] = append(c.parameters[index], nil...) // that it has none is known now, too
	}
	for _, m := range c.parameters[index] {
		if err := t.addTable(m); err != nil {
			return err
		}
	}
	return nil
}

// count returns how many interfaces the calling thread's namespace has, as far as it matters:
// each has a file for what IPv6 counts, which takes no request for each. 0 without IPv6.
func count() int {
	dir, err := os.Open("/proc/thread-self/net/dev_snmp6")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(crowd + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	return len(names)
}

func byInterface(answers [][]byte) (parameters, error) {
	list := parameters{}
	for _, m := range answers {
		inner, err := parametersOf(m)
		if err != nil {
			return nil, err
		}
		// The table itself has parameters of no interface, which a new one begins with.
		if index := int(inner.Number(ndtpaIfindex)); index != 0 {
			list[index] = append(list[index], m)
		}
	}
	return list, nil
}

func parametersOf(m []byte) (netlink.Attributes, error) {
	list, err := netlink.Behind(m, ndtmsgHead, "neighbour table")
	if err != nil {
		return nil, err
	}
	return list.Nested(ndtaParms)
}

// addTable adds the sysctls that one answer is about.
func (t reported) addTable(m []byte) error {
	inner, err := parametersOf(m)
	if err != nil {
		return err
	}
	folder := map[byte]string{unix.AF_INET: "ipv4/neigh", unix.AF_INET6: "ipv6/neigh"}[m[0]]
	for a := range inner.All() {
		file := neighbourFile[a.Kind]
		if folder == "" || file == "" {
			continue
		}
		t.add(folder+"/"+file, uint32(netlink.Number(a.Value)))
	}
	return nil
}
