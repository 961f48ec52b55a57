package nft

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Services are TCP ports by which the nodes of a job mean the nodes themselves.
type Services struct {
	Network netip.Prefix // of the nodes' addresses in the job
	Ports   []int
	Nodes   []Node
	Out     int // index of the job's interface by which the nodes are reached
}

// Node is where a node is, by its address in the job.
type Node struct{ Inside, Real netip.Addr }

// Serve leads connections to services of a job's nodes to the nodes. It makes a table in the
// job's namespace, which is the calling thread's and with which it goes:
//
//	table ip gresnet {
//		map nodes { type ipv4_addr : ipv4_addr; elements = { INSIDE : REAL, … } }
//		chain out  { type filter hook output priority raw; ip daddr NETWORK tcp dport PORT accept; notrack; }
//		chain in   { type filter hook prerouting priority raw; iif OUT tcp sport PORT accept; notrack; }
//		chain lead { type nat hook output priority dstnat; ip daddr NETWORK tcp dport PORT dnat to ip daddr map @nodes; }
//		chain hide { type nat hook postrouting priority srcnat; oif OUT masquerade; }
//	}
//
// The kernel tracks these connections and no others: what a job sends by its HCAs costs nothing.
func Serve(s Services) error {
	c, err := open()
	if err != nil {
		return err
	}
	t := c.CreateTable(&nftables.Table{Name: "gresnet", Family: nftables.TableFamilyIPv4})
	nodes := &nftables.Set{Table: t, Name: "nodes", IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeIPAddr}
	if err := c.AddSet(nodes, nil); err != nil {
		return fmt.Errorf("make the map of nodes: %w", err)
	}
	s.track(c, t)
	s.lead(c, t, nodes)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("lead services to the job's nodes: %w", err)
	}
	return s.fill(c, nodes)
}

// track has the kernel track connections to services and nothing else.
func (s Services) track(c *nftables.Conn, t *nftables.Table) {
	out := c.AddChain(&nftables.Chain{Name: "out", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityRaw})
	in := c.AddChain(&nftables.Chain{Name: "in", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw})
	for _, port := range s.Ports {
		c.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: append(s.service(port), &expr.Verdict{Kind: expr.VerdictAccept})})
		answers := append(is(expr.MetaKeyIIF, uint32(s.Out)), tcp(sourcePort, port)...)
		c.AddRule(&nftables.Rule{Table: t, Chain: in, Exprs: append(answers, &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	for _, chain := range []*nftables.Chain{out, in} {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{&expr.Notrack{}}})
	}
}

func (s Services) lead(c *nftables.Conn, t *nftables.Table, nodes *nftables.Set) {
	lead := c.AddChain(&nftables.Chain{Name: "lead", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	for _, port := range s.Ports {
		c.AddRule(&nftables.Rule{Table: t, Chain: lead, Exprs: append(s.service(port),
			destination(),
			&expr.Lookup{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, IsDestRegSet: true, SetName: nodes.Name, SetID: nodes.ID},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: unix.NFT_REG_1},
		)})
	}
	hide := c.AddChain(&nftables.Chain{Name: "hide", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	c.AddRule(&nftables.Rule{Table: t, Chain: hide, Exprs: append(is(expr.MetaKeyOIF, uint32(s.Out)), &expr.Masq{})})
}

// service matches what goes to a port of the job's nodes.
func (s Services) service(port int) []expr.Any {
	mask := net4(s.Network.Bits())
	inside := []expr.Any{
		destination(),
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: s.Network.Masked().Addr().AsSlice()},
	}
	return append(inside, tcp(destinationPort, port)...)
}

// Where UDP and TCP have their ports.
const sourcePort, destinationPort = 0, 2

func tcp(offset uint32, port int) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: binaryutil.BigEndian.PutUint16(uint16(port))},
	}
}

// destination loads the destination address, at byte 16 of an IPv4 header.
func destination() expr.Any {
	return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
}

// net4 is the mask of a network of IPv4.
func net4(bits int) []byte { return binaryutil.BigEndian.PutUint32(^uint32(0) << (32 - bits)) }

// most is how many nodes one message has room for: an attribute's length has 16 bits.
const most = 512

func (s Services) fill(c *nftables.Conn, nodes *nftables.Set) error {
	var elements []nftables.SetElement
	for i, n := range s.Nodes {
		elements = append(elements, nftables.SetElement{Key: n.Inside.AsSlice(), Val: n.Real.AsSlice()})
		if len(elements) < most && i < len(s.Nodes)-1 {
			continue
		}
		if err := c.SetAddElements(nodes, elements); err != nil {
			return fmt.Errorf("say where the job's nodes are: %w", err)
		}
		if err := c.Flush(); err != nil {
			return fmt.Errorf("say where the job's nodes are: %w", err)
		}
		elements = nil
	}
	return nil
}
