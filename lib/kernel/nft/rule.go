package nft

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The offsets of the ports in a UDP or TCP header, and of the addresses in one of IPv4.
const (
	sourcePort, destinationPort       = 0, 2
	sourceAddress, destinationAddress = 12, 16
)

// drop adds a rule that drops packets which meet all conditions.
func drop(c *nftables.Conn, chain *nftables.Chain, conditions ...[]expr.Any) {
	all := append(slices.Concat(conditions...), &expr.Verdict{Kind: expr.VerdictDrop})
	c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: all})
}

// protocol compares what a packet has above IP.
func protocol(op expr.CmpOp, with byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, compare(op, []byte{with})}
}

// port compares a port of a UDP or TCP header.
func port(offset uint32, op expr.CmpOp, with int) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		compare(op, binary.BigEndian.AppendUint16(nil, uint16(with))),
	}
}

// compare compares what is loaded.
func compare(op expr.CmpOp, with []byte) expr.Any {
	return &expr.Cmp{Register: 1, Op: op, Data: with}
}

func address(offset uint32, op expr.CmpOp, a netip.Addr) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}, compare(op, a.AsSlice())}
}

// source matches a source address.
func source(a netip.Addr) []expr.Any { return address(sourceAddress, expr.CmpOpEq, a) }
