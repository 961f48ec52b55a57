package virtual

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ServicesTable has the routes to the nodes themselves. Nothing of the node's own is in it. The rules
// come before all of the node's that an HCA may bring along.
const (
	ServicesTable = 489
	shutPref      = 1
	servicesPref  = 2
	localPref     = 3
)

// OutTable has the default route by the uplink. Its rule comes after all that a job's HCAs may bring along.
const (
	OutTable = 490
	mainPref = 32766 // the kernel's
)

func rule(pref, table int) *netlink.Rule {
	r := netlink.NewRule()
	r.Priority, r.Table = pref, table
	return r
}

// Ports is a range of ports, the ends included.
type Ports struct{ First, Last int }

// Serve makes ports mean the nodes' own services, where routes of ServicesTable lead to the nodes. What a
// program of the job's listens on at these ports is then reached only at the loopback's addresses. TCP connections to
// the ports of shut are refused (EACCES), wherever they lead.
func Serve(all []Ports, shut []int) error {
	err := netlink.RuleAdd(rule(localPref, unix.RT_TABLE_LOCAL))
	for _, port := range shut {
		if err == nil {
			err = selected{shutPref, 0, unix.RTN_PROHIBIT, unix.IPPROTO_TCP}.add(to(Ports{port, port})...)
		}
	}
	for _, p := range all {
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			if err == nil {
				err = lead(servicesPref, ServicesTable, protocol, &p)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("lead ports to the nodes: %w", err)
	}
	// The kernel asks this rule before all others, in which the node's own address is the job's.
	if err := netlink.RuleDel(rule(0, unix.RT_TABLE_LOCAL)); err != nil {
		return fmt.Errorf("lead ports to the nodes: %w", err)
	}
	return nil
}

// lead has what the job itself sends to a protocol's ports take the routes of a table; without ports, what it sends
// by any other protocol.
func lead(pref, table uint32, protocol uint8, p *Ports) error {
	one := selected{pref, table, unix.RTN_UNICAST, protocol}
	if p == nil {
		return one.add()
	}
	return one.add(to(*p)...)
}

// to selects what the job itself sends to ports.
func to(p Ports) []*nl.RtAttr {
	return []*nl.RtAttr{nl.NewRtAttr(nl.FRA_IIFNAME, nl.ZeroTerminated("lo")), nl.NewRtAttr(nl.FRA_DPORT_RANGE, p.bytes())}
}

func (p Ports) bytes() []byte {
	return binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, uint16(p.First)), uint16(p.Last))
}

// selected is a rule for packets of a protocol.
type selected struct {
	pref, table uint32
	action      uint8
	protocol    uint8
}

// add adds the rule for what has attributes, and without any for all other protocols. netlink.RuleAdd says the protocol
// in four bytes (v1.3.1), for which the kernel, which has one, complains in its log.
func (s selected) add(attributes ...*nl.RtAttr) error {
	head := nl.NewRtMsg()
	head.Family, head.Table, head.Scope, head.Type = unix.AF_INET, unix.RT_TABLE_UNSPEC, unix.RT_SCOPE_UNIVERSE, s.action
	if len(attributes) == 0 {
		head.Flags = netlink.FibRuleInvert
	}
	request := nl.NewNetlinkRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	request.AddData(head)
	request.AddData(nl.NewRtAttr(nl.FRA_PRIORITY, nl.Uint32Attr(s.pref)))
	if s.table > 0 {
		request.AddData(nl.NewRtAttr(nl.FRA_TABLE, nl.Uint32Attr(s.table)))
	}
	request.AddData(nl.NewRtAttr(nl.FRA_IP_PROTO, nl.Uint8Attr(s.protocol)))
	for _, a := range attributes {
		request.AddData(a)
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// ShowDefault makes the default route of the main table one for programs to look at: they take the
// interface that it names for the one that others reach them by. The kernel takes the one of OutTable for what
// is sent. It answers a program that asks for a route, as `ip route get 8.8.8.8` does, as if that sent by UDP to no
// port (net/ipv4/route.c:inet_rtm_getroute). So UDP takes OutTable to ports alone, up to 65534: the kernel takes no
// range that ends with 65535 (include/net/fib_rules.h:fib_rule_port_range_valid).
//
// Before that, what a program sends out of its own accord from another port than the job's is refused at once: the node
// would drop it.
func ShowDefault(own Ports, all bool) error {
	err := netlink.RuleDel(rule(mainPref, unix.RT_TABLE_MAIN))
	rest := rule(mainPref, unix.RT_TABLE_MAIN)
	rest.SuppressPrefixlen = 0 // but the default route
	if err == nil {
		err = netlink.RuleAdd(rest)
	}
	if err == nil && !all {
		err = refuseBeside(own)
	}
	if err == nil {
		err = lead(mainPref+1, OutTable, unix.IPPROTO_UDP, nil)
	}
	if err == nil {
		err = lead(mainPref+1, OutTable, unix.IPPROTO_UDP, &Ports{First: 1, Last: 65534})
	}
	if err == nil {
		err = netlink.RuleAdd(rule(mainPref+2, unix.RT_TABLE_MAIN))
	}
	if err != nil {
		return fmt.Errorf("lead packets out: %w", err)
	}
	return nil
}

// refuseBeside refuses what is sent from other ports than a job's own (EACCES). The kernel takes no range that ends with
// 65535.
func refuseBeside(own Ports) error {
	for _, beside := range []Ports{{1, own.First - 1}, {own.Last + 1, 65534}} {
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			if beside.First > beside.Last {
				continue
			}
			if err := (selected{mainPref + 1, 0, unix.RTN_PROHIBIT, protocol}).add(nl.NewRtAttr(nl.FRA_SPORT_RANGE, beside.bytes())); err != nil {
				return err
			}
		}
	}
	return nil
}

// TakeAnswers has the job take by an interface what others send it, although its routes to them lead
// elsewhere: the nodes answer under the addresses of the job's own peers, and this node under the
// job's.
func TakeAnswers(index int) error {
	i, err := find(index)
	if err == nil {
		err = set(i.Attrs().Name, "ipv4", "accept_local", "1")
	}
	if err == nil {
		err = set(i.Attrs().Name, "ipv4", "rp_filter", "0")
	}
	if err == nil {
		err = set("all", "ipv4", "rp_filter", "0") // the higher one counts
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
