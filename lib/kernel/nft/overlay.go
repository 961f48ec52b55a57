package nft

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DropForged makes the table that drops what others than root send to the VXLANs of a port:
//
//	nft 'table inet TABLE { chain input { type filter hook input priority raw; udp dport PORT udp sport >= 1024 drop; } }'
//
// Nodes send from ports below 1024, which users cannot bind. The rule does not ask for the VXLAN's id: what
// looks like one packet here may be several (UDP_SEGMENT), and the kernel takes them apart only for the
// VXLAN's socket. The rule would see the first one's id. If the table exists, DropForged leaves it as it is.
func DropForged(table string, port int) error {
	err := create(nftables.TableFamilyINet, table, func(c *nftables.Conn, t *nftables.Table) {
		chain := c.AddChain(&nftables.Chain{
			Name: "input", Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRaw,
		})
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: forged(port)})
	})
	if err != nil {
		return fmt.Errorf("drop forged packets at port %d: %w", port, err)
	}
	return nil
}

// forged matches UDP's ports, at bytes 0 and 2.
func forged(port int) []expr.Any {
	transport := func(offset uint32) expr.Any {
		return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}
	}
	is := func(op expr.CmpOp, data []byte) expr.Any {
		return &expr.Cmp{Register: unix.NFT_REG_1, Op: op, Data: data}
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1},
		is(expr.CmpOpEq, []byte{unix.IPPROTO_UDP}),
		transport(destinationPort), is(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(port))),
		transport(sourcePort), is(expr.CmpOpGte, binaryutil.BigEndian.PutUint16(1024)),
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}

// RemoveForged removes the table of DropForged. It succeeds if there is none.
func RemoveForged(table string) error { return remove(nftables.TableFamilyINet, []string{table}) }
