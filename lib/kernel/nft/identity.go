package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Identity says that a job has the node's own address, and what the node then does at its end of the
// uplink.
type Identity struct {
	Node    netip.Addr   // the address
	Gateway netip.Addr   // what the node is to the job, and all whom the job has itself for a peer
	Nodes   []netip.Addr // of the job, this one included
	Slurm   []int        // ports of Slurm's, which sees the job's own address and calls that
	Calls   *Calls       // nil: nobody calls the job
}

// Calls says which connections to the node's address are for a job at its ports: slurmctld, and slurmd on its
// other nodes and on those of a new job, call srun and salloc there.
type Calls struct {
	Leads []int           // the indices of the interfaces by which they come
	From  []netip.Addr    // who calls besides the job's nodes
	Also  [][2]netip.Addr // who does besides, from and to, unless that is too long a list for the kernel
	Own   []uint32        // whose processes on this node call, if slurmctld runs here
}

// add adds the nodes to the table. Others send to a job under the addresses of its nodes, whom the
// job has elsewhere. So they appear as the gateway, and the node's own services see the node:
//
//	set nodes { type ipv4_addr; flags interval; elements = { NODES } }
//	chain postrouting { …; oif INDEX ip saddr @nodes snat to GATEWAY; }
//	chain input { type nat hook input priority srcnat; iif INDEX tcp dport SLURM accept; …; iif INDEX ip saddr ADDRESS snat to NODE; }
func (i Identity) add(c *nftables.Conn, postrouting *nftables.Chain, j Job) (*nftables.Set, error) {
	t := postrouting.Table
	nodes := &nftables.Set{Table: t, Name: "nodes", KeyType: nftables.TypeIPAddr, Interval: true}
	if err := c.AddSet(nodes, nil); err != nil {
		return nil, err
	}
	add(c, postrouting, nil, is(expr.MetaKeyOIF, j.Index), sourceIn(nodes, false), snat(i.Gateway))
	input := c.AddChain(&nftables.Chain{Name: "input", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityNATSource})
	for _, port := range i.Slurm {
		add(c, input, accept, is(expr.MetaKeyIIF, j.Index), tcp(port, port))
	}
	add(c, input, nil, is(expr.MetaKeyIIF, j.Index), source(j.Address), snat(i.Node))
	if i.Calls != nil {
		return nodes, i.Calls.add(c, t, i, j)
	}
	return nodes, nil
}

// add adds the chains that lead calls to the job:
//
//	set callers { type ipv4_addr; flags interval; elements = { NODES, FROM, ALSO } }
//	chain calls { type nat hook prerouting priority dstnat - 10; ip daddr != NODE accept;
//	              ip saddr != @callers accept;
//	              iif LEAD tcp dport PORTS tcp flags & (fin | syn | rst | ack) == syn dnat to ADDRESS; … }
//	chain own   { type nat hook output priority dstnat - 10; ip daddr != NODE accept;
//	              skuid OWN tcp dport PORTS dnat to ADDRESS; … }
//
// They come before those of others, and ask for no socket: a user could have one. A connection that the
// kernel had not tracked before the table was there goes on as it is.
func (k Calls) add(c *nftables.Conn, t *nftables.Table, i Identity, j Job) error {
	priority := nftables.ChainPriority(beforeOthers)
	callers := &nftables.Set{Table: t, Name: "callers", KeyType: nftables.TypeIPAddr, Interval: true}
	own := alone(slices.Concat(i.Nodes, k.From))
	from := ranges(slices.Concat(own, k.Also))
	if len(from) > 2*mostRanges {
		from = ranges(own)
	}
	if err := c.AddSet(callers, from); err != nil {
		return err
	}
	calls := c.AddChain(&nftables.Chain{Name: "calls", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: &priority})
	add(c, calls, accept, address(destinationAddress, expr.CmpOpNeq, i.Node))
	add(c, calls, accept, sourceIn(callers, true))
	for _, index := range k.Leads {
		add(c, calls, nil, is(expr.MetaKeyIIF, uint32(index)), tcp(j.Ports[0], j.Ports[1]), begins(), dnat(j.Address))
	}
	if len(k.Own) == 0 {
		return nil
	}
	sent := c.AddChain(&nftables.Chain{Name: "own", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: &priority})
	add(c, sent, accept, address(destinationAddress, expr.CmpOpNeq, i.Node))
	for _, uid := range k.Own {
		add(c, sent, nil, is(expr.MetaKeySKUID, uid), tcp(j.Ports[0], j.Ports[1]), begins(), dnat(j.Address))
	}
	return nil
}

// Translate makes the table of a job that has the node's address, in the job's namespace, with which
// it goes. By the uplink, whose index is out, it is known by the uplink's address, and sends from its own
// ports, whichever a program has chosen. Ports of zero are any. A job that has the uplink's address itself sends
// from there alone:
//
//	table ip gresnet {
//		chain out  { type filter hook output priority raw; oif OUT accept; notrack; }
//		chain in   { type filter hook prerouting priority raw; iif OUT accept; notrack; }
//		chain hide { type nat hook postrouting priority srcnat; oif OUT snat to ADDRESS:PORTS; }
//		chain take { type nat hook prerouting priority dstnat; iif OUT ip daddr ADDRESS dnat to NODE; }
//	}
//
// The kernel tracks only these connections, so the table costs nothing for what a job sends by its
// HCAs.
func Translate(out int, a, node netip.Addr, ports [2]int) error {
	c, err := open()
	if err != nil {
		return err
	}
	t := c.CreateTable(&nftables.Table{Name: "gresnet", Family: nftables.TableFamilyIPv4})
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Name: name, Table: t, Type: kind, Hooknum: hook, Priority: priority})
	}
	from := chain("out", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityRaw)
	to := chain("in", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	hide := chain("hide", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	take := chain("take", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	leaves, comes := is(expr.MetaKeyOIF, uint32(out)), is(expr.MetaKeyIIF, uint32(out))
	add(c, from, accept, leaves)
	add(c, from, nil, []expr.Any{&expr.Notrack{}})
	add(c, to, accept, comes)
	add(c, to, nil, []expr.Any{&expr.Notrack{}})
	if node == a {
		add(c, hide, nil, leaves, source(a), snatFrom(a, ports))
	} else {
		add(c, hide, nil, leaves, snatFrom(a, ports))
	}
	add(c, take, nil, comes, address(destinationAddress, expr.CmpOpEq, a), dnat(node))
	if err := c.Flush(); err != nil {
		return fmt.Errorf("give the job the address %s: %w", node, err)
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

func snat(to netip.Addr) []expr.Any { return translate(expr.NATTypeSourceNAT, to) }

// snatFrom is snat with some ports, unless they are zero.
func snatFrom(to netip.Addr, ports [2]int) []expr.Any {
	if ports[0] == 0 {
		return snat(to)
	}
	return []expr.Any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: to.AsSlice()},
		&expr.Immediate{Register: unix.NFT_REG_2, Data: bigEndian(ports[0])},
		&expr.Immediate{Register: unix.NFT_REG_3, Data: bigEndian(ports[1])},
		&expr.NAT{
			Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4,
			RegAddrMin: unix.NFT_REG_1, RegProtoMin: unix.NFT_REG_2, RegProtoMax: unix.NFT_REG_3,
		},
	}
}

func dnat(to netip.Addr) []expr.Any { return translate(expr.NATTypeDestNAT, to) }

func translate(kind expr.NATType, to netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: to.AsSlice()},
		&expr.NAT{Type: kind, Family: unix.NFPROTO_IPV4, RegAddrMin: unix.NFT_REG_1},
	}
}

// The offsets of the ports in a UDP or TCP header, and of the addresses in one of IPv4.
const (
	sourcePort, destinationPort       = 0, 2
	sourceAddress, destinationAddress = 12, 16
)

// tcp matches connections to a range of ports.
func tcp(first, last int) []expr.Any {
	return append(isTCP(), ports(destinationPort, [2]int{first, last})...)
}

func isTCP() []expr.Any { return protocol(expr.CmpOpEq, unix.IPPROTO_TCP) }

// begins matches the packet that asks for a TCP connection.
func begins() []expr.Any {
	const fin, syn, rst, ack, flags = 1, 2, 4, 16, 13 // of the header's byte at flags
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: flags, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{fin | syn | rst | ack}, Xor: []byte{0}},
		compare(expr.CmpOpEq, []byte{syn}),
	}
}

// loopback compares an address with those of the loopback's network.
func loopback(offset uint32, op expr.CmpOp) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 1}, compare(op, []byte{127})}
}

// ports matches a range of ports.
func ports(offset uint32, p [2]int) []expr.Any {
	return append(port(offset, expr.CmpOpGte, p[0]), compare(expr.CmpOpLte, bigEndian(p[1])))
}

// protocol compares what a packet has above IP.
func protocol(op expr.CmpOp, with byte) []expr.Any {
	return []expr.Any{meta(expr.MetaKeyL4PROTO), compare(op, []byte{with})}
}

// port compares a port of a UDP or TCP header.
func port(offset uint32, op expr.CmpOp, with int) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, compare(op, bigEndian(with))}
}

func bigEndian(port int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(port)) }

// compare compares what is loaded.
func compare(op expr.CmpOp, with []byte) expr.Any {
	return &expr.Cmp{Register: 1, Op: op, Data: with}
}

func load(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

func address(offset uint32, op expr.CmpOp, a netip.Addr) []expr.Any {
	return []expr.Any{load(offset), compare(op, a.AsSlice())}
}

// source matches a source address.
func source(a netip.Addr) []expr.Any { return address(sourceAddress, expr.CmpOpEq, a) }

// sourceIn matches source addresses that a set has, or that it has not.
func sourceIn(set *nftables.Set, not bool) []expr.Any {
	return []expr.Any{load(sourceAddress), &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: set.Name, SetID: set.ID, Invert: not}}
}

// most bounds the elements of one message, because an attribute's length has 16 bits.
const most = 1024

// mostRanges is fewer than one message of the transaction takes.
const mostRanges = most / 2

// alone returns addresses as ranges.
func alone(all []netip.Addr) (list [][2]netip.Addr) {
	for _, a := range all {
		list = append(list, [2]netip.Addr{a, a})
	}
	return list
}

// ranges returns the elements of a set that has the addresses of some ranges and no others: where each range
// begins, and what comes after its end.
func ranges(all [][2]netip.Addr) (list []nftables.SetElement) {
	slices.SortFunc(all, func(a, b [2]netip.Addr) int { return a[0].Compare(b[0]) })
	for i := 0; i < len(all); {
		first, end := all[i][0], all[i][1].Next()
		for ; i < len(all) && !end.Less(all[i][0]); i++ {
			if after := all[i][1].Next(); end.Less(after) {
				end = after
			}
		}
		list = append(list, nftables.SetElement{Key: first.AsSlice()}, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
	}
	return list
}

// fill adds addresses to a set of ranges.
func fill(c *nftables.Conn, set *nftables.Set, all []netip.Addr) error {
	for part := range slices.Chunk(ranges(alone(all)), most) {
		if err := c.SetAddElements(set, part); err != nil {
			return err
		}
	}
	return nil
}
