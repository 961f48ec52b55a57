package nft

import (
	"fmt"

	"github.com/google/nftables"
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
func DropForged(table string, to int) error {
	err := create(nftables.TableFamilyINet, table, func(c *nftables.Conn, t *nftables.Table) {
		chain := c.AddChain(&nftables.Chain{
			Name: "input", Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRaw,
		})
		drop(c, chain, protocol(expr.CmpOpEq, unix.IPPROTO_UDP), port(destinationPort, expr.CmpOpEq, to), port(sourcePort, expr.CmpOpGte, 1024))
	})
	if err != nil {
		return fmt.Errorf("drop forged packets at port %d: %w", to, err)
	}
	return nil
}

// RemoveForged removes the table of DropForged. It succeeds if there is none.
func RemoveForged(table string) error { return remove(nftables.TableFamilyINet, []string{table}) }
