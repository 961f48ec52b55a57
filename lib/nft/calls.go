package nft

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Calls says how a job calls slurmd on its other nodes. slurmd calls back: srun's steps connect to
// srun, at the address from which srun called. So a call goes by the overlay to the job on the
// other node, and from there to that node's slurmd, under an address that leads the same way back.
type Calls struct {
	Port    int          // slurmd's
	Inside  int          // index of the overlay in the job
	Own     netip.Addr   // the job's address on this node
	Gateway netip.Addr   // the node's address, as the job reaches it
	Back    netip.Prefix // in which this node has the job's other nodes; not longer than the prefix of the job's network
}

// back returns the address under which this node has another node of the job, by that node's place
// in the network.
func (k Calls) back(network netip.Prefix, inside netip.Addr) netip.Addr {
	first, base, a := network.Masked().Addr().As4(), k.Back.Masked().Addr().As4(), inside.As4()
	place := binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(first[:])
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(base[:])+place)
	return netip.AddrFrom4(a)
}

// Calls back have these source ports, which identify their answers. No user can bind them.
const lowCallPort, highCallPort = 600, 1023

// callMaps are the maps of Calls.
type callMaps struct{ calls, callers, back *nftables.Set }

func (k Calls) addMaps(c *nftables.Conn, t *nftables.Table) (m callMaps, err error) {
	for name, one := range map[string]**nftables.Set{"calls": &m.calls, "callers": &m.callers, "back": &m.back} {
		if *one, err = addMap(c, t, name); err != nil {
			return m, err
		}
	}
	return m, nil
}

// track makes the kernel track calls and calls back, by
//
//	chain out { …; tcp dport PORT accept; }
//	chain in  { …; iif INSIDE tcp sport PORT accept; iif INSIDE tcp dport PORT accept;
//	            iif OUT ip daddr BACK accept; iif INSIDE tcp dport 600-1023 accept; }
func (k Calls) track(c *nftables.Conn, out, in *nftables.Chain, way int) {
	inside := is(expr.MetaKeyIIF, uint32(k.Inside))
	add(c, out, accept, tcp(destinationPort, k.Port))
	add(c, in, accept, inside, tcp(sourcePort, k.Port))
	add(c, in, accept, inside, tcp(destinationPort, k.Port))
	add(c, in, accept, is(expr.MetaKeyIIF, uint32(way)), to(k.Back))
	add(c, in, accept, inside, between(destinationPort, lowCallPort, highCallPort))
}

// lead leads calls to the job on the other node, what comes from there to this node, and what that
// calls back to where the call came from. Nothing else passes:
//
//	map calls   { elements = { OWN : GATEWAY, REAL : INSIDE, … } }
//	map callers { elements = { INSIDE : BACK, … } }
//	map back    { elements = { BACK : INSIDE, … } }
//	chain lead { …; tcp dport PORT dnat to ip daddr map @calls; }
//	chain take { type nat hook prerouting priority dstnat;
//	             iif INSIDE ip daddr OWN tcp dport PORT dnat to GATEWAY; iif OUT dnat to ip daddr map @back; }
//	chain pass { type filter hook forward priority filter; ct status & dnat != 0 accept; drop; }
//	chain hide { oif OUT tcp dport PORT snat to ip saddr map @callers; ip saddr GATEWAY oif INSIDE snat to OWN:600-1023;
//	             oif INSIDE tcp dport PORT masquerade; … }
func (k Calls) lead(c *nftables.Conn, lead, hide *nftables.Chain, m callMaps, way int) {
	in, out := is(expr.MetaKeyIIF, uint32(k.Inside)), is(expr.MetaKeyOIF, uint32(k.Inside))
	call := tcp(destinationPort, k.Port)
	add(c, lead, nil, call, translate(expr.NATTypeDestNAT, m.calls))

	take := c.AddChain(&nftables.Chain{Name: "take", Table: lead.Table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
	gateway := []expr.Any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: k.Gateway.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: unix.NFT_REG_1},
	}
	add(c, take, nil, in, to(netip.PrefixFrom(k.Own, 32)), call, gateway)
	add(c, take, nil, is(expr.MetaKeyIIF, uint32(way)), translate(expr.NATTypeDestNAT, m.back))

	pass := filter(c, lead.Table, "pass", nftables.ChainHookForward)
	add(c, pass, accept, masked(&expr.Ct{Key: expr.CtKeySTATUS, Register: 1}, statusDNAT, expr.CmpOpNeq))
	drop(c, pass)

	add(c, hide, nil, is(expr.MetaKeyOIF, uint32(way)), call, translate(expr.NATTypeSourceNAT, m.callers))
	add(c, hide, nil, source(k.Gateway), out, hideBehind(k.Own, lowCallPort, highCallPort))
	add(c, hide, nil, out, call, []expr.Any{&expr.Masq{}})
}

// fill adds the job's nodes to the maps. The first may be this node, which needs no way back.
func (k Calls) fill(c *nftables.Conn, m callMaps, network netip.Prefix, nodes []Node) error {
	calls := []Node{{Inside: k.Own, Real: k.Gateway}}
	var callers, back []Node
	for _, n := range nodes {
		if n.Inside == k.Own {
			continue
		}
		from := k.back(network, n.Inside)
		calls = append(calls, Node{n.Real, n.Inside})
		callers = append(callers, Node{n.Inside, from})
		back = append(back, Node{from, n.Inside})
	}
	for _, one := range []struct {
		m   *nftables.Set
		has []Node
	}{{m.calls, calls}, {m.callers, callers}, {m.back, back}} {
		if err := fill(c, one.m, one.has); err != nil {
			return err
		}
	}
	return nil
}

var accept = &expr.Verdict{Kind: expr.VerdictAccept}

// add adds a rule of several parts and a verdict. The verdict is nil if a part decides.
func add(c *nftables.Conn, chain *nftables.Chain, verdict *expr.Verdict, parts ...[]expr.Any) {
	all := slices.Concat(parts...)
	if verdict != nil {
		all = append(all, verdict)
	}
	c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: all})
}

// between matches ports from first to last.
func between(offset uint32, first, last int) []expr.Any {
	port := tcp(offset, first)
	port[len(port)-1] = compare(expr.CmpOpGte, first)
	return append(port, compare(expr.CmpOpLte, last))
}

func compare(op expr.CmpOp, port int) expr.Any {
	return &expr.Cmp{Register: unix.NFT_REG_1, Op: op, Data: binaryutil.BigEndian.PutUint16(uint16(port))}
}

// hideBehind changes the source to an address and a port from first to last.
func hideBehind(a netip.Addr, first, last int) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: a.AsSlice()},
		&expr.Immediate{Register: unix.NFT_REG_2, Data: binaryutil.BigEndian.PutUint16(uint16(first))},
		&expr.Immediate{Register: unix.NFT_REG_3, Data: binaryutil.BigEndian.PutUint16(uint16(last))},
		&expr.NAT{
			Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, Specified: true,
			RegAddrMin: unix.NFT_REG_1, RegProtoMin: unix.NFT_REG_2, RegProtoMax: unix.NFT_REG_3,
		},
	}
}
