package nft

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Services has the TCP ports at which the names of a job's nodes mean the nodes themselves.
type Services struct {
	Network netip.Prefix // has the nodes' addresses in the job
	Ports   []int
	Nodes   []Node
	Out     int    // the index of the job's interface that leads to the nodes
	Calls   *Calls // nil: connections to slurmd are like others
}

// Node has a node's address in the job, and its real one.
type Node struct{ Inside, Real netip.Addr }

// Serve makes the table that leads connections to services of a job's nodes to the nodes. The
// calling thread is in the job's namespace; the table goes with that:
//
//	table ip gresnet {
//		map nodes { type ipv4_addr : ipv4_addr; elements = { INSIDE : REAL, … } }
//		chain out  { type filter hook output priority raw; tcp dport PORT ip daddr NETWORK accept; notrack; }
//		chain in   { type filter hook prerouting priority raw; iif OUT tcp sport PORT accept; notrack; }
//		chain lead { type nat hook output priority dstnat; tcp dport PORT ip daddr NETWORK dnat to ip daddr map @nodes; }
//		chain hide { type nat hook postrouting priority srcnat; oif OUT masquerade; }
//	}
//
// The kernel tracks only these connections, so the table costs nothing for what a job sends by its
// HCAs. With Calls there are more rules.
func Serve(s Services) error {
	c, err := open()
	if err != nil {
		return err
	}
	t := c.CreateTable(&nftables.Table{Name: "gresnet", Family: nftables.TableFamilyIPv4})
	nodes, err := addMap(c, t, "nodes")
	if err != nil {
		return err
	}
	var calls callMaps
	if s.Calls != nil {
		if calls, err = s.Calls.addMaps(c, t); err != nil {
			return err
		}
	}
	s.track(c, t)
	s.lead(c, t, nodes, calls)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("lead services to the job's nodes: %w", err)
	}
	if err := fill(c, nodes, s.Nodes); err != nil || s.Calls == nil {
		return err
	}
	return s.Calls.fill(c, calls, s.Network, s.Nodes)
}

// addMap makes an empty map of addresses. fill fills it after the transaction.
func addMap(c *nftables.Conn, t *nftables.Table, name string) (*nftables.Set, error) {
	m := &nftables.Set{Table: t, Name: name, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeIPAddr}
	if err := c.AddSet(m, nil); err != nil {
		return nil, fmt.Errorf("make the map %s: %w", name, err)
	}
	return m, nil
}

// track makes the kernel track connections to services and nothing else.
func (s Services) track(c *nftables.Conn, t *nftables.Table) {
	out := c.AddChain(&nftables.Chain{Name: "out", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityRaw})
	in := c.AddChain(&nftables.Chain{Name: "in", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw})
	for _, port := range s.Ports {
		c.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: append(s.service(port), &expr.Verdict{Kind: expr.VerdictAccept})})
		answers := append(is(expr.MetaKeyIIF, uint32(s.Out)), tcp(sourcePort, port)...)
		c.AddRule(&nftables.Rule{Table: t, Chain: in, Exprs: append(answers, &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	if s.Calls != nil {
		s.Calls.track(c, out, in, s.Out)
	}
	for _, chain := range []*nftables.Chain{out, in} {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{&expr.Notrack{}}})
	}
}

func (s Services) lead(c *nftables.Conn, t *nftables.Table, nodes *nftables.Set, calls callMaps) {
	lead := c.AddChain(&nftables.Chain{Name: "lead", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	for _, port := range s.Ports {
		if s.Calls == nil || port != s.Calls.Port {
			c.AddRule(&nftables.Rule{Table: t, Chain: lead, Exprs: append(s.service(port), translate(expr.NATTypeDestNAT, nodes)...)})
		}
	}
	hide := c.AddChain(&nftables.Chain{Name: "hide", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	if s.Calls != nil {
		s.Calls.lead(c, lead, hide, calls, s.Out)
	}
	c.AddRule(&nftables.Rule{Table: t, Chain: hide, Exprs: append(is(expr.MetaKeyOIF, uint32(s.Out)), &expr.Masq{})})
}

// translate replaces an address by the one that a map has for it, if there is one.
func translate(kind expr.NATType, m *nftables.Set) []expr.Any {
	offset := uint32(sourceAddress)
	if kind == expr.NATTypeDestNAT {
		offset = destinationAddress
	}
	return []expr.Any{
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Lookup{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, IsDestRegSet: true, SetName: m.Name, SetID: m.ID},
		&expr.NAT{Type: kind, Family: unix.NFPROTO_IPV4, RegAddrMin: unix.NFT_REG_1},
	}
}

// service matches packets to a port of the job's nodes.
func (s Services) service(port int) []expr.Any {
	return append(to(s.Network), tcp(destinationPort, port)...)
}

// to matches packets to a network.
func to(network netip.Prefix) []expr.Any {
	return []expr.Any{
		destination(),
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 4, Mask: net4(network.Bits()), Xor: make([]byte, 4)},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: network.Masked().Addr().AsSlice()},
	}
}

// The offsets of the ports in a UDP or TCP header.
const sourcePort, destinationPort = 0, 2

func tcp(offset uint32, port int) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: binaryutil.BigEndian.PutUint16(uint16(port))},
	}
}

// The offsets of the addresses in an IPv4 header.
const sourceAddress, destinationAddress = 12, 16

// destination loads the destination address.
func destination() expr.Any {
	return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: destinationAddress, Len: 4}
}

// net4 returns the mask of an IPv4 network.
func net4(bits int) []byte { return binaryutil.BigEndian.PutUint32(^uint32(0) << (32 - bits)) }

// most bounds the elements of one message, because an attribute's length has 16 bits.
const most = 512

// fill adds each node's real address to a map, by its address inside.
func fill(c *nftables.Conn, m *nftables.Set, nodes []Node) error {
	for part := range slices.Chunk(nodes, most) {
		var elements []nftables.SetElement
		for _, n := range part {
			elements = append(elements, nftables.SetElement{Key: n.Inside.AsSlice(), Val: n.Real.AsSlice()})
		}
		if err := c.SetAddElements(m, elements); err != nil {
			return fmt.Errorf("fill the map %s: %w", m.Name, err)
		}
		if err := c.Flush(); err != nil {
			return fmt.Errorf("fill the map %s: %w", m.Name, err)
		}
	}
	return nil
}
