package nft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Packet is the first packet of a connection, as rules see it.
type Packet struct {
	From, To netip.Addr // IPv4; a zero To: the rules do not know it
	Protocol byte       // unix.IPPROTO_TCP or IPPROTO_UDP
	Port     uint16     // the destination's
	FromPort uint16     // the source's; 0: the rules do not know it
	In, Out  string     // interfaces; empty: none
	DNAT     bool       // a rule has given the packet its destination
}

// dropping returns the node's chains that drop a packet, or reject it: those that forward packets if
// the packet has an Out, and otherwise those of packets for the node. A rule counts if it is certain
// to match. If a condition is not one that dropping knows, the rule counts as one that does not match:
// the chain may then accept the packet all the same.
func dropping(p Packet) (names []string, err error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	chains, err := c.ListChains()
	if isMissing(err) {
		return nil, nil
	}
	hook := nftables.ChainHookInput
	if p.Out != "" {
		hook = nftables.ChainHookForward
	}
	for _, chain := range chains {
		if err != nil || !isBase(chain, *hook) {
			continue
		}
		var v verdict
		j := judge{c: c, packet: p, table: chain.Table}
		if v, err = j.chain(chain.Name, 0); v == none && chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop {
			v = dropped
		}
		if v == dropped {
			names = append(names, family(chain.Table)+" "+chain.Table.Name+" "+chain.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of nftables: %w", err)
	}
	return names, nil
}

// isBase tells whether a chain sees all IPv4 packets at a hook.
func isBase(c *nftables.Chain, hook nftables.ChainHook) bool {
	ip := c.Table.Family == nftables.TableFamilyIPv4 || c.Table.Family == nftables.TableFamilyINet
	return ip && c.Hooknum != nil && *c.Hooknum == hook
}

// family returns what nft calls a table's family.
func family(t *nftables.Table) string {
	if t.Family == nftables.TableFamilyINet {
		return "inet"
	}
	return "ip"
}

type verdict int

const (
	none verdict = iota // the chain ended without one
	accepted
	dropped
)

// judge goes through the rules of a table for a packet.
type judge struct {
	c      *nftables.Conn
	packet Packet
	table  *nftables.Table
}

// deepest is how deep the kernel lets chains call each other (NFT_JUMP_STACK_SIZE).
const deepest = 16

func (j judge) chain(name string, depth int) (verdict, error) {
	rules, err := j.c.GetRules(j.table, &nftables.Chain{Name: name, Table: j.table})
	for _, r := range rules {
		var said *expr.Verdict
		if said, err = j.rule(r.Exprs); err != nil {
			break
		}
		if said == nil {
			continue
		}
		v, ends, err := j.follow(said, depth)
		if err != nil || ends {
			return v, err
		}
	}
	return none, err
}

// follow tells what comes of a rule's verdict, and whether it ends the chain.
func (j judge) follow(said *expr.Verdict, depth int) (v verdict, ends bool, err error) {
	switch said.Kind {
	case expr.VerdictAccept:
		return accepted, true, nil
	case expr.VerdictDrop:
		return dropped, true, nil
	case expr.VerdictReturn:
		return none, true, nil
	case expr.VerdictJump, expr.VerdictGoto:
		if depth < deepest {
			v, err = j.chain(said.Chain, depth+1)
		}
		return v, v != none || said.Kind == expr.VerdictGoto, err
	}
	return none, false, nil
}

// rule returns the verdict of a rule, or nil if it has none or may not match.
func (j judge) rule(exprs []expr.Any) (*expr.Verdict, error) {
	registers := map[uint32][]byte{} // those whose value is known
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Verdict:
			return e, nil
		case *expr.Reject:
			return &expr.Verdict{Kind: expr.VerdictDrop}, nil
		case *expr.Target:
			if e.Name != "REJECT" {
				return nil, nil
			}
			return &expr.Verdict{Kind: expr.VerdictDrop}, nil
		case *expr.Lookup:
			matches, found, err := j.lookup(e, registers[e.SourceRegister])
			if err != nil || found != nil || !matches {
				return found, err
			}
		default:
			if !j.matches(e, registers) {
				return nil, nil
			}
		}
	}
	return nil, nil
}

// matches carries out an expression, and tells whether the rule goes on for certain.
func (j judge) matches(e expr.Any, registers map[uint32][]byte) bool {
	switch e := e.(type) {
	case *expr.Meta:
		registers[e.Register] = j.meta(e.Key)
		return !e.SourceRegister
	case *expr.Payload:
		registers[e.DestRegister] = j.payload(e)
		return e.OperationType == expr.PayloadLoad
	case *expr.Ct:
		registers[e.Register] = nil
		switch {
		case e.Key == expr.CtKeySTATE:
			registers[e.Register] = native(expr.CtStateBitNEW)
		case e.Key == expr.CtKeySTATUS && j.packet.DNAT:
			registers[e.Register] = native(statusDNAT)
		}
		return !e.SourceRegister
	case *expr.Fib:
		registers[e.Register] = nil
		if e.FlagDADDR && !e.FlagIIF && !e.FlagOIF && e.ResultADDRTYPE && j.packet.Out == "" {
			registers[e.Register] = native(unix.RTN_LOCAL)
		}
		return true
	case *expr.Immediate:
		registers[e.Register] = e.Data
		return true
	case *expr.Bitwise:
		registers[e.DestRegister] = bits(registers[e.SourceRegister], e.Mask, e.Xor)
		return true
	case *expr.Cmp:
		return holds(e.Op, registers[e.Register], e.Data)
	case *expr.Range:
		v := registers[e.Register]
		return holds(expr.CmpOpGte, v, e.FromData) && holds(expr.CmpOpLte, v, e.ToData) && e.Op == expr.CmpOpEq
	case *expr.Match:
		return j.old(e)
	case *expr.Counter, *expr.Log:
		return true
	}
	return false
}

// meta returns what a packet's key is, or nil if nobody can tell.
func (j judge) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyIIFNAME:
		return named(j.packet.In)
	case expr.MetaKeyOIFNAME:
		return named(j.packet.Out)
	case expr.MetaKeyL4PROTO:
		return []byte{j.packet.Protocol}
	case expr.MetaKeyNFPROTO:
		return []byte{unix.NFPROTO_IPV4}
	case expr.MetaKeyPROTOCOL:
		return binaryutil.BigEndian.PutUint16(unix.ETH_P_IP)
	}
	return nil
}

func (j judge) payload(e *expr.Payload) []byte {
	const protocol, source, destination = 9, 12, 16 // of an IPv4 header
	header := make([]byte, 20)
	header[protocol] = j.packet.Protocol
	copy(header[source:], j.packet.From.AsSlice())
	copy(header[destination:], j.packet.To.AsSlice())
	end := e.Offset + e.Len
	switch {
	case e.Base == expr.PayloadBaseNetworkHeader && end > destination && !j.packet.To.IsValid():
	case e.Base == expr.PayloadBaseNetworkHeader && e.Offset >= protocol && end <= 20 && (e.Offset >= source || end <= protocol+1):
		return header[e.Offset:end]
	case e.Base == expr.PayloadBaseTransportHeader && end <= 4 && (e.Offset >= destinationPort || j.packet.FromPort != 0):
		ports := binary.BigEndian.AppendUint16(nil, j.packet.FromPort)
		return binary.BigEndian.AppendUint16(ports, j.packet.Port)[e.Offset:end]
	}
	return nil
}

func bits(v, mask, xor []byte) (out []byte) {
	if v == nil || len(mask) != len(v) || len(xor) != len(v) {
		return nil
	}
	for i := range v {
		out = append(out, v[i]&mask[i]^xor[i])
	}
	return out
}

// holds compares as much as the rule has: the begin of an interface's name, say.
func holds(op expr.CmpOp, v, with []byte) bool {
	if v == nil || len(with) > len(v) || len(with) == 0 {
		return false
	}
	is := bytes.Compare(v[:len(with)], with)
	switch op {
	case expr.CmpOpEq:
		return is == 0
	case expr.CmpOpNeq:
		return is != 0
	case expr.CmpOpLt:
		return is < 0
	case expr.CmpOpLte:
		return is <= 0
	case expr.CmpOpGt:
		return is > 0
	}
	return is >= 0
}

// lookup tells whether a set has a value, and the verdict that a map has for it.
func (j judge) lookup(e *expr.Lookup, v []byte) (matches bool, found *expr.Verdict, err error) {
	if v == nil {
		return false, nil, nil
	}
	set, err := j.c.GetSetByName(j.table, e.SetName)
	if err != nil {
		return false, nil, err
	}
	elements, err := j.c.GetSetElements(set)
	if err != nil {
		return false, nil, err
	}
	hit := slices.IndexFunc(elements, func(o nftables.SetElement) bool { return !o.IntervalEnd && bytes.Equal(o.Key, v) })
	if set.Interval {
		hit = interval(elements, v)
	}
	switch {
	case set.Concatenation || hit < 0 && set.IsMap:
		return false, nil, nil
	case set.IsMap:
		return false, decided(elements[hit].Val), nil
	}
	return (hit >= 0) != e.Invert, nil, nil
}

// decided reads a verdict of a map, or returns nil if the map has none (linux/netfilter/nf_tables.h,
// NFTA_VERDICT_*).
func decided(data []byte) *expr.Verdict {
	const code, chain = 1, 2
	v := new(expr.Verdict)
	d, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return nil
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		switch d.Type() {
		case code:
			v.Kind = expr.VerdictKind(int32(d.Uint32()))
		case chain:
			v.Chain = d.String()
		}
	}
	if d.Err() != nil {
		return nil
	}
	return v
}

// interval returns the element whose interval has a value. An element begins an interval, or ends the
// one before it.
func interval(elements []nftables.SetElement, v []byte) int {
	last := -1
	for i, o := range elements {
		if len(o.Key) == len(v) && bytes.Compare(o.Key, v) <= 0 && (last < 0 || before(elements[last], o)) {
			last = i
		}
	}
	if last >= 0 && elements[last].IntervalEnd {
		return -1
	}
	return last
}

// before orders the ends of intervals. Where one ends and the next begins, the begin counts.
func before(a, b nftables.SetElement) bool {
	order := bytes.Compare(a.Key, b.Key)
	return order < 0 || order == 0 && a.IntervalEnd
}

// old is a match of iptables.
func (j judge) old(m *expr.Match) bool {
	within := func(p uint16, r [2]uint16) bool { return r[0] <= p && p <= r[1] }
	from := func(r [2]uint16) bool {
		return r == [2]uint16{0, 65535} || j.packet.FromPort != 0 && within(j.packet.FromPort, r)
	}
	switch info := m.Info.(type) {
	case *xt.Tcp:
		return j.packet.Protocol == unix.IPPROTO_TCP && within(j.packet.Port, info.DstPorts) && from(info.SrcPorts) && info.InvFlags == 0 && info.FlagsMask == 0
	case *xt.Udp:
		return j.packet.Protocol == unix.IPPROTO_UDP && within(j.packet.Port, info.DstPorts) && from(info.SrcPorts) && info.InvFlags == 0
	case *xt.ConntrackMtinfo3:
		has := uint16(1 << 3) // XT_CONNTRACK_STATE_BIT(IP_CT_NEW)
		if j.packet.DNAT {
			has |= 1 << 7 // XT_CONNTRACK_STATE_DNAT
		}
		return xt.ConntrackFlags(info.MatchFlags)&^xt.ConntrackStateAlias == xt.ConntrackState && (info.StateMask&has != 0) == (info.InvertFlags == 0)
	}
	return m.Name == "comment"
}
