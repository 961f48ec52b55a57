package inspect

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/host"
)

// Counts is how many leases and HCAs of each state a node has.
type Counts struct {
	Leases map[string]int
	HCAs   map[string]int
	Ports  []Port
	Mode   rdma.Mode // empty on a node without RDMA
}

// Port is a port of an HCA, as node_exporter names it.
type Port struct {
	Device string
	Num    uint32
}

// The states of an HCA.
const (
	Free        = "free"
	Leased      = "leased"
	Quarantined = "quarantined"
	Unmapped    = "unmapped" // the configuration gives it to no job
	Missing     = "missing"  // the configuration names it, and it is not known which it is
	Gone        = "gone"     // it is not on the node any more; only Status looks
)

// StateOf returns an HCA's state.
func StateOf(s report.HCA) string {
	switch {
	case s.Claim != nil && s.Claim.Quarantined != "", s.User != "":
		return Quarantined
	case s.Claim != nil:
		return Leased
	case s.Missing != "":
		return Missing
	case s.Gone:
		return Gone
	case s.Gres == "":
		return Unmapped
	}
	return Free
}

// Count counts what the node has, and looks for no process.
func Count(n *host.Host) (Counts, error) {
	c := Counts{Leases: map[string]int{}, HCAs: map[string]int{}}
	mode, err := mode(n)
	if errors.Is(err, rdma.ErrNoRDMA) {
		return c, countLeases(n, &c)
	}
	if err != nil {
		return c, err
	}
	c.Mode = mode
	t, err := recorded(n)
	if err != nil {
		return c, err
	}
	mapping, err := n.Map(t.HCAs)
	if err != nil {
		return c, err
	}
	var hcas []report.HCA
	for _, h := range t.HCAs {
		hcas = append(hcas, hcaStatus(n, &t, mapping, h)...)
		for _, p := range h.Ports {
			c.Ports = append(c.Ports, Port{h.Name, p.Num})
		}
	}
	u, err := n.Users()
	if err != nil {
		return c, err
	}
	defer u.Close()
	for _, h := range hcas {
		state := StateOf(h)
		if h.Claim == nil && h.ID != (node.ID{}) && !othersHave(hcas, h.ID) && u.Of(h.ID) != "" {
			state = Quarantined
		}
		c.HCAs[state]++
	}
	if u.Err != nil {
		return c, u.Err
	}
	c.HCAs[Missing] = len(missing(mapping))
	return c, countLeases(n, &c)
}

// othersHave tells whether jobs have other slots of an HCA: their processes use it.
func othersHave(hcas []report.HCA, id node.ID) bool {
	return id.IsSlot() && slices.ContainsFunc(hcas, func(o report.HCA) bool { return o.Claim != nil && o.ID.Whole() == id.Whole() })
}

func countLeases(n *host.Host, c *Counts) error {
	jobs, err := n.Leased()
	if err != nil {
		return err
	}
	for _, id := range jobs {
		s, _, err := leaseStatus(n, id)
		if errors.Is(err, errNoLease) {
			continue
		}
		if err != nil {
			return fmt.Errorf("count the lease of job %d: %w", id, err)
		}
		c.Leases[s.State]++
	}
	return nil
}

// mode returns the node's RDMA netns mode.
func mode(n *host.Host) (rdma.Mode, error) {
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return "", err
	}
	defer v.Close()
	return v.Mode()
}
