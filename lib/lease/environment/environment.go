// Package environment writes what a job's programs and the SPANK plugin read: the lease's env, by
// which the lease counts, its limits, the files by which tasks resolve names, and the notice to a
// job that gets fewer HCAs than it could expect.
//
// environment.go says which variables a job has, and is pure.
package environment

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
)

// hca is one of the job's HCAs, as its programs find it.
type hca struct {
	Name  string // of the RDMA device
	NUMA  int    // -1: not known
	GPU   int    // the nearest of the job's, by Slurm's index; -1: none is
	Ports []port
	Slot  bool // other jobs have it, too
}

// port is a port of an HCA.
type port struct {
	Num       uint32
	Active    bool
	Interface portInterface
	// RoCE is what only a port on Ethernet has.
	RoCE bool
	GIDs []gid // for RoCE v2

	PKey *node.PKeyEntry // the job's; nil: it may use all
}

// portInterface is a port's network interface, if that is in the job.
type portInterface struct {
	Name  string
	Ready bool // it is up and has an address that others can reach
}

// variable is one of a lease's.
type variable struct{ Name, Value string }

// variablesOf returns the variables of a job: what always is there, and those that the site
// exports as far as the job has something to say in them.
func variablesOf(hcas []hca, export []string) []variable {
	all := always(hcas)
	for _, name := range export {
		if value := exported(name, hcas); value != "" {
			all = append(all, variable{name, value})
		}
	}
	return all
}

// always returns the variables that each job has. The n-th entry of a list belongs to the n-th HCA,
// except for ports and interfaces: an HCA has several or none.
func always(hcas []hca) []variable {
	var names, numa, gpus []string
	for _, h := range distinct(hcas) {
		names = append(names, h.Name)
		numa = append(numa, strconv.Itoa(h.NUMA))
		gpus = append(gpus, strconv.Itoa(h.GPU))
	}
	all := []variable{
		{"GRESNET_HCAS", strings.Join(names, ",")},
		{"GRESNET_PORTS", strings.Join(ports(hcas), ",")},
		{"GRESNET_INTERFACES", strings.Join(interfaces(hcas, false), ",")},
		{"GRESNET_NUMA", strings.Join(numa, ",")},
	}
	if slices.ContainsFunc(hcas, func(h hca) bool { return h.GPU >= 0 }) {
		all = append(all, variable{"GRESNET_GPUS", strings.Join(gpus, ",")})
	}
	if keys := pkeys(hcas); keys != "" {
		all = append(all, variable{"GRESNET_PKEY", keys})
	}
	return all
}

// exported returns the value of a variable that the site can have exported, empty if
// the job has none for it.
func exported(name string, hcas []hca) string {
	ready := interfaces(hcas, true)
	switch name {
	case config.NCCLHCA:
		return exactly(ports(hcas))
	case config.NCCLInterface:
		return exactly(ready)
	case config.NCCLGIDIndex, config.UCXGIDIndex:
		return gidIndex(hcas)
	case config.NCCLPKey:
		return pkeyIndex(hcas)
	case config.UCXPKey, config.OpenIBPKey:
		return partition(hcas)
	case config.UCXDevices:
		return strings.Join(ports(hcas), ",")
	case config.GlooInterface, config.TPInterface:
		// TensorPipe takes one name, and so do some that read Gloo's variable.
		return strings.Join(ready[:min(1, len(ready))], "")
	case config.MellanoxNone:
		return "none"
	}
	return ""
}

// exactly returns NCCL's list of whole names. Without the sign they are beginnings of
// names: mlx5_1 is mlx5_10, too.
func exactly(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "=" + strings.Join(names, ",")
}

// ports are "mlx5_3:1", as NCCL and UCX write them. One that is down is named
// only if all of its HCA are: UCX warns of it.
func ports(hcas []hca) []string {
	var all []string
	for _, h := range distinct(hcas) {
		for _, p := range h.used() {
			all = append(all, fmt.Sprintf("%s:%d", h.Name, p.Num))
		}
	}
	return all
}

// distinct leaves each HCA once: a job may have several slots of one.
func distinct(hcas []hca) (list []hca) {
	for _, h := range hcas {
		if !slices.ContainsFunc(list, func(o hca) bool { return o.Name == h.Name }) {
			list = append(list, h)
		}
	}
	return list
}

// used returns the ports of an HCA that a program is to use.
func (h hca) used() []port {
	active := slices.DeleteFunc(slices.Clone(h.Ports), func(p port) bool { return !p.Active })
	if len(active) == 0 {
		return h.Ports
	}
	return active
}

// interfaces returns the job's, or those by which its programs can reach others.
func interfaces(hcas []hca, ready bool) []string {
	var names []string
	for _, h := range hcas {
		for _, p := range h.Ports {
			if i := p.Interface; i.Name != "" && (i.Ready || !ready) && !slices.Contains(names, i.Name) {
				names = append(names, i.Name)
			}
		}
	}
	return names
}

// gid is an entry of a port's GID table.
type gid struct {
	Index int
	Addr  netip.Addr
}

// reach is how far an address reaches, by what it is.
type reach int

// What NCCL looks for, and in this order: RoCE v2 over IPv4 is what fabrics with
// routers have, and link-local addresses reach no further than a switch does.
const (
	ipv4 reach = iota
	ipv6
	linkLocal
)

func (g gid) reach() reach {
	switch {
	case g.Addr.Is4In6():
		return ipv4
	case g.Addr.IsLinkLocalUnicast():
		return linkLocal
	}
	return ipv6
}

// gidIndex returns the lowest index at which each RoCE port that is used has a GID of
// one kind, empty if there is none: one number for all is all that NCCL takes.
func gidIndex(hcas []hca) string {
	var tables [][]gid
	for _, h := range distinct(hcas) {
		for _, p := range h.used() {
			if p.RoCE {
				tables = append(tables, p.GIDs)
			}
		}
	}
	if len(tables) == 0 {
		return ""
	}
	for _, r := range []reach{ipv4, ipv6, linkLocal} {
		for _, g := range tables[0] {
			if g.reach() == r && inAll(tables, g.Index, r) {
				return strconv.Itoa(g.Index)
			}
		}
	}
	return ""
}

func inAll(tables [][]gid, index int, r reach) bool {
	return !slices.ContainsFunc(tables, func(t []gid) bool {
		return !slices.ContainsFunc(t, func(g gid) bool { return g.Index == index && g.reach() == r })
	})
}

// noPKey stands in GRESNET_PKEY for an HCA that is in all of its partitions.
const noPKey = "none"

// pkeys returns the P_Keys of the job's HCAs, as their ports have them; empty if none has one.
func pkeys(hcas []hca) string {
	var all []string
	for _, h := range distinct(hcas) {
		i := slices.IndexFunc(h.Ports, func(p port) bool { return p.PKey != nil })
		if i < 0 {
			all = append(all, noPKey)
		} else {
			all = append(all, h.Ports[i].PKey.PKey.String())
		}
	}
	if !slices.ContainsFunc(all, func(text string) bool { return text != noPKey }) {
		return ""
	}
	return strings.Join(all, ",")
}

// pkeyIndex returns the index at which all ports that are used have the job's P_Key, empty if there is
// none: one number for all is all that NCCL takes (ncclParamIbPkey).
func pkeyIndex(hcas []hca) string {
	return onePKey(hcas, func(e node.PKeyEntry) string { return strconv.Itoa(e.Index) })
}

// partition returns the partition that all ports that are used are in for the job, empty if they are in
// several. UCX and Open MPI take it without the bit for full members.
func partition(hcas []hca) string {
	return onePKey(hcas, func(e node.PKeyEntry) string { return e.PKey.Partition().String() })
}

// onePKey returns what all ports that are used have in common.
func onePKey(hcas []hca, of func(node.PKeyEntry) string) (common string) {
	for _, h := range distinct(hcas) {
		for _, p := range h.used() {
			if p.PKey == nil || common != "" && of(*p.PKey) != common {
				return ""
			}
			common = of(*p.PKey)
		}
	}
	return common
}
