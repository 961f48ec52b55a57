package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/hca/gpu"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/slurm"
	"gresnet/lib/words/config"
	"gresnet/lib/words/node"
)

// gres holds what Slurm counts against the mapping, where Slurm's count is what
// jobs get; and Slurm's GPUs against the node's, where these say what jobs get.
func (s Site) gres(conf slurm.Conf, dir string) []Finding {
	byCount := s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.Scontrol)
	byGPU := s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.GPU) && s.InventoryErr == nil &&
		!slices.ContainsFunc(s.Config.HCAs, func(h config.HCA) bool { return len(h.GPUs) > 0 })
	var all []Finding
	file := path.Join(dir, "gres.conf")
	lines, err := slurm.Read(s.Root, file)
	if faults := lines.GresFaults(); len(faults) > 0 {
		return append(all, refused("gres.conf", faults)...)
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
	if !byCount && !byGPU {
		return all
	}
	if byCount {
		all = append(all, s.gresTypes(conf))
	}
	if err != nil {
		return append(all, fail("gres.conf", "GN072 gresnet setup, or make it: gresnet scan --gres-conf >>"+file, "%s", err))
	}
	if byCount {
		all = append(all, s.gresConf(lines, conf)...)
	}
	if byCount && s.Config.Slurm.Index == config.IndexSlurm && s.InventoryErr == nil && len(s.Inventory.GPUs) > 0 {
		all = append(all, ok("slurm.index", "a job that asks for GPUs and NICs has the NICs of Slurm's numbers, wherever they sit: index = \"near\" in gresnet.toml gives it the nearest"))
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
	said, err := gpu.Of(lines, conf, s.Node)
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

// gresTypes must have the GRES that scontrol is asked for.
func (s Site) gresTypes(conf slurm.Conf) Finding {
	types := strings.Split(conf.Last("grestypes"), ",")
	for _, name := range s.Config.Slurm.Gres {
		if !slices.Contains(types, name) {
			return fail("slurm.conf", "GN077 gresnet setup, or add it; or correct slurm.gres in gresnet.toml", "GresTypes lacks %s", name)
		}
	}
	return ok("slurm.conf", "GresTypes has %s", strings.Join(s.Config.Slurm.Gres, ", "))
}

// gresConf holds gres.conf against the mapping: Slurm's index is that of the
// line, and must mean the same HCA here.
func (s Site) gresConf(lines, conf slurm.Conf) []Finding {
	if s.InventoryErr != nil || s.Drift != nil {
		return nil // there is no mapping to hold it against
	}
	var all []Finding
	for _, name := range s.Config.Slurm.Gres {
		devices, err := lines.Devices(s.Node, name)
		if err != nil {
			return []Finding{failed("gres.conf", err)}
		}
		held := s.compare(name, devices)
		all = append(all, held)
		if held.Level == Error {
			continue
		}
		if f, bad := s.promised(conf, name, len(devices)); bad {
			all = append(all, f)
		}
		if !conf.Consumes(s.Node, name) {
			all = append(all, fail("slurm.conf", "GN408 leave no_consume out", "NodeName of %s has %s with no_consume: Slurm gives it to the first job alone, and jobs are refused", s.Node, name))
		}
		if f, bad := s.typed(conf, name, devices); bad {
			all = append(all, f)
		}
		if f, bad := s.ordered(conf, name, devices); bad {
			all = append(all, f)
		}
	}
	return all
}

// promised holds what the node's line in slurm.conf has of a GRES against
// gres.conf. A node without such a line says it itself.
func (s Site) promised(conf slurm.Conf, name string, have int) (f Finding, bad bool) {
	const about = "slurm.conf"
	do := fmt.Sprintf("GN078 put Gres=%s:%d into the node's line", name, have)
	switch count, is := conf.Promised(s.Node, name); {
	case !is || count == have:
		return Finding{}, false
	case count == 0:
		return fail(about, do, "NodeName of %s has no %s: no job can ask for it", s.Node, name), true
	case count > have:
		return fail(about, do, "NodeName of %s has %d %s, gres.conf %d: slurmctld drains the node", s.Node, count, name, have), true
	default:
		return warn(about, do, "NodeName of %s has %d %s, gres.conf %d: the rest is never used", s.Node, count, name, have), true
	}
}

// typed holds the types of a GRES in the node's line in slurm.conf against those of gres.conf, which
// slurmctld compares with their case.
func (s Site) typed(conf slurm.Conf, name string, devices []slurm.Device) (f Finding, bad bool) {
	types := conf.Types(s.Node, name)
	if len(types) > 1 && slices.Contains(types, "") {
		return fail("slurm.conf", "GN511 give each a type, or none", "NodeName of %s has %s with a type and without: slurmd refuses that", s.Node, name), true
	}
	for _, kind := range types {
		if kind != "" && !slices.ContainsFunc(devices, func(d slurm.Device) bool { return d.Type == kind }) {
			return fail("slurm.conf", "GN406 write the type as gres.conf has it, in the same case",
				"NodeName of %s has %s:%s, gres.conf has none of that type: slurmctld drains the node", s.Node, name, kind), true
		}
	}
	return Finding{}, false
}

// ordered holds the order of a GRES's types in the node's line in slurm.conf, in which Slurm numbers
// its devices, against that in gres.conf.
func (s Site) ordered(conf slurm.Conf, name string, devices []slurm.Device) (f Finding, bad bool) {
	var want []string
	types := conf.Types(s.Node, name)
	for i, d := range devices {
		if !slices.Contains(want, d.Type) {
			want = append(want, d.Type)
		} else if d.Type != devices[i-1].Type && len(types) > 1 {
			return fail("gres.conf", "GN513 put the [[hca]] tables of one type one after the other, then: gresnet scan --gres-conf",
				"%s %d is of type %s, as one before it, and between them is one of another: Slurm numbers those of one type one after the other", name, i, d.Type), true
		}
	}
	lacks := func(list []string) func(string) bool {
		return func(kind string) bool { return !slices.Contains(list, kind) }
	}
	both := slices.DeleteFunc(slices.Clone(want), lacks(types))
	if slices.Equal(both, slices.DeleteFunc(types, lacks(want))) {
		return Finding{}, false
	}
	for i := range want {
		want[i] = strings.TrimSuffix(name+":"+want[i], ":")
	}
	return fail("slurm.conf", "GN370 put them into this order: "+strings.Join(want, ", "),
		"NodeName of %s has the types of %s in another order than gres.conf: Slurm numbers them by it, and jobs fail their prologs", s.Node, name), true
}

func (s Site) compare(name string, devices []slurm.Device) Finding {
	const about = "gres.conf"
	const do = "GN079 take the lines from gresnet scan --gres-conf"
	mapped := map[int]report.HCA{}
	for _, h := range s.Inventory.HCAs {
		if h.Gres == name {
			mapped[h.Number()] = h
		}
	}
	if len(devices) == 0 && len(mapped) > 0 {
		return fail(about, "GN473 gresnet setup, or take the lines from gresnet scan --gres-conf", "it has no %s for this node, the mapping has %d", name, len(mapped))
	}
	if len(devices) != len(mapped) {
		return fail(about, do, "it has %d %s for this node, the mapping has %d", len(devices), name, len(mapped))
	}
	for i, d := range devices {
		h, there := mapped[i]
		switch {
		case !there:
			return fail(about, do, "%s %d is not in the mapping", name, i)
		case d.Type != h.Type && h.Type != "":
			return fail(about, do, "%s %d is of type %q, in the mapping of type %q", name, i, d.Type, h.Type)
		case d.File == "":
			return warn(about, do, "%s has Count= and no File=: Slurm tells no indices, and each job gets what is free", name)
		case strings.HasPrefix(d.File, "/dev/infiniband/"):
			return fail(about, do, "%s %d is %s, whose number changes when the HCA is moved", name, i, d.File)
		case !slurm.Exists(s.Root, d.File):
			return fail(about, "GN080 correct the line, or make the file: gresnet scan --gres-files", "%s is not there, and slurmd does not start without it", d.File)
		}
	}
	return ok(about, "%d %s", len(devices), name)
}
