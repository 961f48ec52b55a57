package check

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/node"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/slurm"
)

// overlays holds [overlay] against the node.
func (s Site) overlays() []Finding {
	const about = "overlay"
	c := s.Config.Overlay
	switch {
	case !c.On():
		return nil
	case s.OverlayErr != nil:
		f := failed(about, s.OverlayErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ") // as a prolog has it
		return []Finding{f}
	}
	return []Finding{ok(about, "jobs have the node's own address; UDP port %d must be open between nodes", c.Port)}
}

// services warns of ports of Slurm's that mean the job on its nodes, since slurm.conf has others than gresnet.toml.
func (s Site) services(conf slurm.Conf) (all []Finding) {
	if s.ConfigErr != nil || s.Config.MovesNothing() || !s.Config.Overlay.On() || s.Uplinks == nil {
		return nil
	}
	hosts, _ := conf.Hosts([]string{s.Node}) // what it does not read is a fault of slurm.conf
	ports := map[string]string{"slurmd": strconv.Itoa(cmp.Or(hosts[s.Node].Port, jobnet.SlurmdPort(conf)))}
	if nodes, _ := conf.NodeNames(); slices.ContainsFunc(conf.Controllers(), func(host string) bool {
		node, _ := conf.Node(host)
		return nodes[node]
	}) {
		ports["slurmctld"] = cmp.Or(conf.Last("slurmctldport"), "6817")
	}
	for _, who := range slices.Sorted(maps.Keys(ports)) {
		if lacks := lacking(ports[who], s.Config.Overlay.Services); lacks != "" {
			all = append(all, warn("overlay", "GN870 add it to services in [overlay]",
				"srun inside a job does not reach %s on the job's nodes: services lacks its port %s", who, lacks))
		}
	}
	return all
}

// lacking returns which ports of a range like "6820-6829" are neither below 1024 nor in a list.
func lacking(ports string, list []int) string {
	from, to, _ := strings.Cut(ports, "-")
	first, err := strconv.Atoi(from)
	last, _ := strconv.Atoi(cmp.Or(to, from))
	if err != nil || last > 65535 {
		return "" // Slurm does not take it
	}
	var lacks []int
	for port := max(first, 1024); port <= last; port++ {
		if !slices.Contains(list, port) {
			lacks = append(lacks, port)
		}
	}
	return node.FormatIndices(lacks)
}
