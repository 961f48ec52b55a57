package virtual

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	kernel "gresnet/lib/kernel/netlink"
)

// ServicesTable has the routes to the nodes themselves. Nothing of the node's own is in it. The rules
// come before all of the node's that an HCA may bring along.
const (
	ServicesTable = 489
	servicesPref  = 1
	localPref     = 2
)

// OutTable has the default route by the uplink. Its rule comes after all that a job's HCAs may bring along.
const (
	OutTable = 490
	mainPref = 32766 // the kernel's
)

// rule returns the request for a rule that leads to a table, with the attributes more.
func rule(pref, table uint32, more ...[]byte) []byte {
	const toTable = 1 // FR_ACT_TO_TBL
	m := make([]byte, unix.SizeofRtMsg)
	m[0], m[7] = unix.AF_INET, toTable
	m = kernel.AppendUint32(kernel.AppendUint32(m, unix.FRA_PRIORITY, pref), unix.FRA_TABLE, table)
	return slices.Concat(append([][]byte{m}, more...)...)
}

// change adds rules, and then removes one.
func change(what string, add [][]byte, remove []byte) error {
	route, err := kernel.OpenRoute()
	if err != nil {
		return err
	}
	defer route.Close()
	if _, err = route.SendAll(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, add); err == nil && remove != nil {
		_, err = route.Send(unix.RTM_DELRULE, unix.NLM_F_ACK, 0, remove)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Ports is a range of ports, the ends included.
type Ports struct{ First, Last int }

// Serve makes ports mean the nodes' own services, where routes of ServicesTable lead to the nodes. What a
// program of the job's listens on at these ports is then reached only at the loopback's addresses.
func Serve(all []Ports) error {
	rules := [][]byte{rule(localPref, unix.RT_TABLE_LOCAL)}
	for _, p := range all {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			rules = append(rules, lead(p, protocol))
		}
	}
	// The kernel asks the one that goes before all others, in which the node's own address is the job's.
	return change("lead ports to the nodes", rules, rule(0, unix.RT_TABLE_LOCAL))
}

// lead has what the job itself sends to a protocol's ports take the routes of ServicesTable.
func lead(p Ports, protocol byte) []byte {
	ports := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, uint16(p.First)), uint16(p.Last))
	return rule(servicesPref, ServicesTable, kernel.AppendText(nil, unix.FRA_IIFNAME, "lo"),
		kernel.Append(nil, unix.FRA_IP_PROTO, []byte{protocol}), kernel.Append(nil, unix.FRA_DPORT_RANGE, ports))
}

// ShowDefault makes the default route of the main table one for programs to look at: they take the
// interface that it names for the one that others reach them by. The kernel takes the one of OutTable.
func ShowDefault() error {
	all := rule(mainPref, unix.RT_TABLE_MAIN)
	butDefault := rule(mainPref, unix.RT_TABLE_MAIN, kernel.AppendUint32(nil, unix.FRA_SUPPRESS_PREFIXLEN, 0))
	if err := change("lead packets out", nil, all); err != nil {
		return err
	}
	return change("lead packets out", [][]byte{butDefault, rule(mainPref+1, OutTable), rule(mainPref+2, unix.RT_TABLE_MAIN)}, nil)
}

// TakeAnswers has the job take by an interface what others send it, although its routes to them lead
// elsewhere: the nodes answer under the addresses of the job's own peers, and this node under the
// job's.
func TakeAnswers(index int) error {
	i, err := find(index)
	if err == nil {
		err = set(i, "ipv4", "accept_local", "1")
	}
	if err == nil {
		err = set(i, "ipv4", "rp_filter", "0")
	}
	if err == nil {
		err = write("net/ipv4/conf/all/rp_filter", "0") // the higher one counts
	}
	return err
}

// TakePorts has the kernel choose ports of a range alone for the job's sockets. There are few, so it
// takes those again at once that wait for the end of an old connection.
func TakePorts(p Ports) error {
	err := write("net/ipv4/ip_local_port_range", fmt.Sprintf("%d %d", p.First, p.Last))
	if err == nil {
		err = write("net/ipv4/tcp_tw_reuse", "1")
	}
	return err
}

func write(sysctl, value string) error {
	if err := os.WriteFile("/proc/sys/"+sysctl, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s: %w", sysctl, err)
	}
	return nil
}
