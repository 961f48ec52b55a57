package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DropForged makes the table that drops what others than root send to a VXLAN:
//
//	nft 'table inet TABLE { chain input { type filter hook input priority raw; udp dport PORT udp sport >= 1024 @th,96,24 ID drop; } }'
//
// Nodes send from ports below 1024, which users cannot bind. The table drops nothing of the node's
// other VXLANs. If the table exists, DropForged leaves it as it is.
func DropForged(table string, port, id int) error {
	err := create(nftables.TableFamilyINet, table, func(c *nftables.Conn, t *nftables.Table) {
		chain := c.AddChain(&nftables.Chain{
			Name: "input", Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRaw,
		})
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: forged(port, id)})
	})
	if err != nil {
		return fmt.Errorf("drop forged packets of overlay %d: %w", id, err)
	}
	return nil
}

// forged matches UDP's ports, at bytes 0 and 2, and the VNI, at 4 of VXLAN's header.
func forged(port, id int) []expr.Any {
	const vni = 8 + 4
	transport := func(offset, length uint32) expr.Any {
		return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
	}
	is := func(op expr.CmpOp, data []byte) expr.Any {
		return &expr.Cmp{Register: unix.NFT_REG_1, Op: op, Data: data}
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1},
		is(expr.CmpOpEq, []byte{unix.IPPROTO_UDP}),
		transport(destinationPort, 2), is(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(port))),
		transport(sourcePort, 2), is(expr.CmpOpGte, binaryutil.BigEndian.PutUint16(1024)),
		transport(vni, 3), is(expr.CmpOpEq, binary.BigEndian.AppendUint32(nil, uint32(id))[1:]),
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}

// RemoveForged removes the table of DropForged. It succeeds if there is none.
func RemoveForged(table string) error { return remove(nftables.TableFamilyINet, []string{table}) }
