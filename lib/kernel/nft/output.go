package nft

import (
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// OutputDrops returns the chains, as "TABLE CHAIN", that see what the node's own programs send over IPv4, and drop or
// refuse some of it.
func OutputDrops() (names []string, err error) {
	if loaded, err := loaded(); err != nil || !loaded {
		return nil, err
	}
	c, err := open()
	if err != nil {
		return nil, err
	}
	all, err := c.ListChains()
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the chains of nftables: %w", err)
	}
	for _, chain := range all {
		if chain.Hooknum == nil || *chain.Hooknum != *nftables.ChainHookOutput || chain.Table.Family != nftables.TableFamilyIPv4 && chain.Table.Family != nftables.TableFamilyINet {
			continue
		}
		drops := chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop
		if !drops {
			if drops, err = dropsIn(c, all, chain, map[string]bool{}); err != nil {
				return nil, err
			}
		}
		if drops {
			names = append(names, chain.Table.Name+" "+chain.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// dropsIn tells whether a rule of a chain drops or refuses, or one of a chain that it leads to.
func dropsIn(c *nftables.Conn, all []*nftables.Chain, chain *nftables.Chain, seen map[string]bool) (bool, error) {
	if seen[chain.Name] {
		return false, nil
	}
	seen[chain.Name] = true
	rules, err := c.GetRules(chain.Table, chain)
	if err != nil {
		return false, fmt.Errorf("read the chain %s: %w", chain.Name, err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			switch e := e.(type) {
			case *expr.Reject:
				return true, nil
			case *expr.Target: // of iptables
				if e.Name == "REJECT" {
					return true, nil
				}
			case *expr.Verdict:
				if e.Kind == expr.VerdictDrop {
					return true, nil
				}
				next := slices.IndexFunc(all, func(o *nftables.Chain) bool {
					return o.Table.Name == chain.Table.Name && o.Table.Family == chain.Table.Family && o.Name == e.Chain
				})
				if e.Kind != expr.VerdictJump && e.Kind != expr.VerdictGoto || next < 0 {
					continue
				}
				if drops, err := dropsIn(c, all, all[next], seen); drops || err != nil {
					return drops, err
				}
			}
		}
	}
	return false, nil
}
