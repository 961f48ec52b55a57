package nft

import (
	"errors"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

func forward(c *nftables.Conn, t *nftables.Table) *nftables.Chain {
	return c.AddChain(&nftables.Chain{Name: "forward", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
}

func TestATableThatIsRefusedInPartIsNotMade(t *testing.T) {
	ns := netnstest.New(t)
	err := ns.Do(func() error {
		for _, jump := range []string{"nowhere", "here"} {
			err := create(nftables.TableFamilyIPv4, "way", func(c *nftables.Conn, table *nftables.Table) {
				here := c.AddChain(&nftables.Chain{Name: "here", Table: table})
				chain := forward(c, table)
				c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: jump}}})
				drop(c, here, port(sourcePort, expr.CmpOpEq, 7))
			})
			if jump == "here" {
				return err
			}
			if !errors.Is(err, unix.ENOENT) {
				t.Errorf("a jump to nowhere: %v", err)
			}
			if out := ns.Run("nft list tables"); out != "" {
				t.Errorf("there is %q", out)
			}
		}
		return nil
	})
	if out := ns.Run("nft list tables"); err != nil || out != "table ip way\n" {
		t.Errorf("there is %q, %v", out, err)
	}
}

func TestATableThatIsThereStaysAsItIsAndOneThatIsNotIsRemovedAllTheSame(t *testing.T) {
	ns := netnstest.New(t)
	ns.Run("nft add table ip one")
	err := ns.Do(func() error {
		err := create(nftables.TableFamilyIPv4, "one", func(c *nftables.Conn, table *nftables.Table) {
			forward(c, table)
		})
		if out := ns.Run("nft list table ip one"); err != nil || out != "table ip one {\n}\n" {
			t.Errorf("it is %q, %v", out, err)
		}
		return remove(nftables.TableFamilyIPv4, []string{"one", "two"})
	})
	if out := ns.Run("nft list tables"); err != nil || out != "" {
		t.Errorf("there is %q, %v", out, err)
	}
}
