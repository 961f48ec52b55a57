package check

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/slurm"
)

// gres holds what Slurm counts against the mapping, where Slurm's count is what
// jobs get; and Slurm's GPUs against the node's, where these say what jobs get.
func (s Site) gres(conf slurm.Conf, dir string) []Finding {
	byCount := s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.Scontrol)
	byGPU := s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.GPU) && s.InventoryErr == nil &&
		!slices.ContainsFunc(s.Config.HCAs, func(h config.HCA) bool { return len(h.GPUs) > 0 })
	var all []Finding
	lines, err := slurm.Read(s.Root, path.Join(dir, "gres.conf"))
	if len(lines.GresFaults()) > 0 {
		return nil // as the plan says
	}
	if lacking := s.lackingGPUs(lines); len(lacking) > 0 {
		all, byGPU = append(all, lacking...), false
	}
	if byGPU && len(s.Inventory.GPUs) == 0 {
		if byGPU = false; err == nil && s.mapped() > 0 {
			all = append(all, s.gpus(lines, conf)...)
		}
	}
	if s.ConfigErr == nil {
		for _, name := range source.Unheard(s.Config.Slurm, conf, s.Node) {
			all = append(all, warn("slurm.source", `GN845 write source = ["scontrol", "gpu"], or take the GRES out of slurm.conf and gres.conf`,
				"NodeName of %s has %s, and no source gives what a job asks for: a job that asks for %s and gets no HCA is refused", s.Node, name, name))
		}
	}
	if byCount && s.Config.Slurm.Index == config.IndexSlurm && s.InventoryErr == nil && len(s.Inventory.GPUs) > 0 {
		all = append(all, ok("slurm.index", "a job that asks for GPUs and NICs has the NICs of Slurm's numbers, wherever they sit: index = \"near\" in gresnet.toml gives it the nearest"))
	}
	if byGPU && err != nil {
		byGPU = false
		if !byCount { // the plan has it
			all = append(all, fail("gres.conf", "GN895 make it, with a line for each GPU", "%s", err))
		}
	}
	if byGPU {
		all = append(all, s.idle()...)
		all = append(all, s.gpus(lines, conf)...)
		all = append(all, sharedGPUs(conf)...)
	}
	return all
}

// idle names the HCAs that serve no GPU: each GPU has nearer ones.
func (s Site) idle() []Finding {
	if len(s.Inventory.GPUs) == 0 {
		return nil
	}
	var names []string
	for _, h := range s.Inventory.HCAs {
		serves := func(o report.HCA) bool { // it, or another part of the same HCA
			return len(o.Serves) > 0 && (o.ID == h.ID || o.ID.PCI == h.ID.PCI && h.ID.PCI != "")
		}
		if h.Gres != "" && !slices.ContainsFunc(s.Inventory.HCAs, serves) && !slices.Contains(names, h.Name) {
			names = append(names, h.Name)
		}
	}
	const text = "no GPU is served by %s: each has nearer HCAs"
	switch said := strings.Join(names, ", "); {
	case said == "" || s.Drift != nil:
		return nil
	case len(s.Config.Slurm.Source) > 1:
		return []Finding{ok("mapping", text, said)}
	default:
		return []Finding{warn("mapping", "GN785 leave it out of [[hca]], or say gpus = there", text, said)}
	}
}

// lackingGPUs finds GPUs of gres.conf whose device nodes the node does not have.
func (s Site) lackingGPUs(conf slurm.Conf) []Finding {
	devices, err := conf.Devices(s.Node, "gpu")
	if err != nil {
		return nil // what holds them against the kernel says so
	}
	for i, d := range devices {
		if d.File != "" && !slurm.Exists(s.Root, d.File) {
			return []Finding{fail("gres.conf", "GN073 load the GPUs' driver (nvidia-smi), or correct the line", "gpu %d is %s, which the kernel does not have: slurmd does not start", i, d.File)}
		}
	}
	return nil
}

// sharedGPUs finds GPUs that several jobs share: Slurm tells each of these jobs that it has the
// GPU.
func sharedGPUs(conf slurm.Conf) []Finding {
	for _, name := range strings.Split(conf.Last("grestypes"), ",") {
		if name = strings.ToLower(name); name == "shard" || name == "mps" {
			return []Finding{warn("slurm.conf", "GN074 have jobs of "+name+" run where no HCA serves their GPUs, or leave gpu out of slurm.source",
				"GresTypes has %s: the first of the jobs that share a GPU gets its HCA, and the others are refused", name)}
		}
	}
	return nil
}

// gpus holds the GPUs of gres.conf against those that the kernel has.
func (s Site) gpus(lines, conf slurm.Conf) []Finding {
	const about = "gres.conf"
	said, err := gres.SlurmGPUsOf(lines, conf, s.Node)
	if err != nil {
		return []Finding{failed(about, err)}
	}
	have, err := s.kernelGPUs()
	if err != nil {
		return []Finding{failed("GPUs", err)}
	}
	said = said.Follow(s.Root)
	order, err := said.Order(have)
	if err != nil {
		return []Finding{failed(about, err)}
	}
	lacks := slices.IndexFunc(order, func(at node.Location) bool { return at.PCI == "" })
	switch {
	case len(said.Devices) == 0:
		return nil
	case lacks >= 0 || len(have) == 0:
		return []Finding{fail(about, "GN075 correct it, or say in the [[hca]] entries which GPUs each serves (gpus = )", "it has %d gpu for this node, the kernel has %d: a job with GPU %d is refused", len(said.Devices), len(have), max(lacks, 0))}
	case !said.Silent(have):
		return []Finding{ok(about, "%d gpu", len(order))}
	case !slices.IsSortedFunc(have, func(a, b sysfs.GPU) int { return a.Minor - b.Minor }):
		return []Finding{fail(about, "GN543 name the GPUs' device nodes in File=, or set AutoDetect=",
			"it has no GPU's device node: they are taken to be in the order of their PCI addresses, and their device nodes are in another")}
	}
	return []Finding{warn(about, "GN544 name the GPUs' device nodes in File=, or set AutoDetect=", "it has no GPU's device node: they are taken to be in the order of their PCI addresses")}
}

// kernelGPUs returns the GPUs that the kernel has.
func (s Site) kernelGPUs() ([]sysfs.GPU, error) {
	sys, errSys := fs.Sub(s.Root, "sys")
	proc, errProc := fs.Sub(s.Root, "proc")
	if err := errors.Join(errSys, errProc); err != nil {
		return nil, err
	}
	return sysfs.GPUs(sys, proc)
}
