// Package health finds what on a node watches HCAs, and would take one that is with a job for
// broken: checks of NHC's, and programs of the site's. It reads files and runs nothing.
package health

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
)

// Node is a node with its files, and its HCAs.
type Node struct {
	Root      fs.FS
	Inventory report.Scan
}

// Miss is a check of NHC's that takes what is with a job for broken.
type Miss struct {
	Line  int
	Check string
	Why   string
	Sure  bool // it does; otherwise it may
}

// assignment is what a command is given in its environment.
var assignment = regexp.MustCompile(`(^|\s)[A-Za-z_]\w*=\S*`)

// NHC looks in a text of nhc.conf for checks that miss what jobs have: TARGET || CHECK.
func (n Node) NHC(text, host string) (all []Miss) {
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		target, check, _ := strings.Cut(line, "||")
		may, sure := isFor(strings.TrimSpace(target), host)
		check = strings.TrimSpace(assignment.ReplaceAllString(check, ""))
		if why, does := n.misses(check); may && why != "" {
			all = append(all, Miss{i + 1, check, why, sure && does})
		}
	}
	return all
}

// isFor tells whether a target may mean a host, and whether it is sure to. Only NHC itself knows what its
// patterns and lists of nodes mean.
func isFor(target, host string) (may, sure bool) {
	sure = target == "*" || target == host
	return sure || strings.ContainsAny(target, "*?[{(/!"), sure
}

var (
	// anyPort is NHC's own check of ports, where it names no HCA.
	anyPort = regexp.MustCompile(`\bcheck_hw_ib\s+\S+\s*($|[;&|])`)
	// counts are programs that list the HCAs of a network namespace.
	counts = regexp.MustCompile(`\b(ibstat|ibstatus|ibv_devinfo|ibv_devices|ibdev2netdev|perfquery|rdma (link|dev))\b`)
	// speaking are names of checks that say that they are about HCAs.
	speaking = regexp.MustCompile(`\bcheck_(\w+_)?(ib|rdma|hcas?|infiniband|roce|opa|hfi|mlx\d?)(_\w+)?\b`)
)

// misses says what a check misses while jobs have HCAs, nothing if it does not care, and whether that is
// sure. check_hw_ib reads /sys/class/infiniband, check_hw_eth /proc/net/dev (NHC scripts/lbnl_hw.nhc).
func (n Node) misses(check string) (why string, sure bool) {
	if strings.Contains(check, "gresnet") { // it asks who has which HCA
		return "", true
	}
	exclusive := n.Inventory.Mode == rdma.Exclusive
	for _, part := range strings.FieldsFunc(check, func(r rune) bool { return strings.ContainsRune(" \t/:,;=\"'&|()", r) }) {
		if exclusive && n.maps(part) || n.moves(part) {
			return fmt.Sprintf("a job has %s", part), true
		}
	}
	ofSite := func(name string) bool { return name != "check_hw_ib" }
	switch {
	case !exclusive:
		return "", true
	case anyPort.MatchString(check) && n.jobsHaveAll():
		return "jobs have all HCAs", true
	case counts.MatchString(check):
		return "jobs have HCAs", true
	case slices.ContainsFunc(speaking.FindAllString(check, -1), ofSite):
		return "its name says that it looks at HCAs", false
	}
	return "", true
}

func (n Node) jobsHaveAll() bool {
	return !slices.ContainsFunc(n.Inventory.HCAs, func(h report.HCA) bool { return h.Gres == "" })
}

// maps tells whether jobs may have an HCA.
func (n Node) maps(name string) bool {
	return slices.ContainsFunc(n.Inventory.HCAs, func(h report.HCA) bool { return h.Name == name && h.Gres != "" })
}

// moves tells whether an interface goes into jobs.
func (n Node) moves(name string) bool {
	for _, h := range n.Inventory.HCAs {
		for _, p := range h.Ports {
			if p.Interface == name && h.Gres != "" && !h.Keep {
				return true
			}
		}
	}
	return false
}
