package nft

import (
	"errors"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

func TestATableThatIsRefusedInPartIsNotMade(t *testing.T) {
	ns := netnstest.New(t)
	err := ns.Do(func() error {
		for _, jump := range []string{"nowhere", "here"} {
			err := create(nftables.TableFamilyIPv4, "way", func(c *nftables.Conn, table *nftables.Table) {
				here := c.AddChain(&nftables.Chain{Name: "here", Table: table})
				chain := filter(c, table, "forward", nftables.ChainHookForward)
				add(c, chain, &expr.Verdict{Kind: expr.VerdictJump, Chain: jump}, isNew())
				add(c, here, accept, isNew())
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
			filter(c, table, "forward", nftables.ChainHookForward)
		})
		if out := ns.Run("nft list table ip one"); err != nil || out != "table ip one {\n}\n" {
			t.Errorf("it is %q, %v", out, err)
		}
		return Remove("one", "two")
	})
	if out := ns.Run("nft list tables"); err != nil || out != "" {
		t.Errorf("there is %q, %v", out, err)
	}
}
