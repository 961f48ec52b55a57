package check

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/devnode"
)

// Open tells whether users can open device nodes, which gresnet close corrects.
func Open(all []Finding) bool {
	return slices.ContainsFunc(Bad(all), func(f Finding) bool { return f.About == "device nodes" })
}

// restricted tells whether users can open the node's own device nodes of HCAs that
// jobs can have, where the site wants them restricted.
func (s Site) restricted() []Finding {
	const about = "device nodes"
	if s.Config.Access.Host != config.Closed {
		return nil
	}
	const others = 0o077
	open, seen := []string(nil), false
	folder, err := fs.Stat(s.Root, "dev/infiniband")
	shut := err == nil && folder.IsDir() && folder.Mode().Perm()&others == 0
	for _, h := range s.Inventory.HCAs {
		if h.Gres == "" || h.Away {
			continue
		}
		for _, c := range h.Chars {
			info, err := fs.Stat(s.Root, devnode.Path("dev/infiniband", c.Name))
			seen = seen || err == nil
			if err == nil && (!shut || c.Kind == "hfi1") && info.Mode().Perm()&others != 0 {
				open = append(open, c.Name)
			}
		}
	}
	if cm, err := fs.Stat(s.Root, "dev/infiniband/rdma_cm"); err == nil && !shut && cm.Mode().Perm()&others != 0 {
		open = append(open, "rdma_cm")
	}
	switch {
	case len(open) > 0:
		return []Finding{warn(about, "GN057 gresnet close closes them now, as gresnet.service does at boot",
			"users can open %s without a job that was given it, though host is %q", strings.Join(open, ", "), config.Closed)}
	case shut:
		return []Finding{ok(about, "they are in a folder that is root's alone")}
	case seen:
		return []Finding{ok(about, "they are root's alone")}
	}
	return nil
}

// limits looks for the cgroup controller that holds jobs to [limits]. A job's
// cgroup has it if the one above it hands it on, and Slurm makes that when slurmd
// starts: system.slice/slurmstepd.scope, or in the slice that cgroup.conf names; with
// several slurmds on a node its name begins with theirs (Slurm
// src/plugins/cgroup/v2/cgroup_v2.c).
func (s Site) limits() []Finding {
	const about = "limits"
	const cgroups = "sys/fs/cgroup"
	if s.Config.Limits == (config.Limits{}) {
		return nil
	}
	if !s.hasController(cgroups + "/cgroup.controllers") {
		return []Finding{warn(about, "GN058 boot with cgroup v2, and without cgroup_disable=rdma", "the kernel has no cgroup controller rdma: jobs run without limits")}
	}
	scopes, err := fs.Glob(s.Root, cgroups+"/*.slice/*slurmstepd.scope/cgroup.subtree_control")
	if err != nil || len(scopes) == 0 {
		return []Finding{ok(about, "the kernel has the cgroup controller rdma; whether jobs have it can be seen when slurmd runs")}
	}
	for _, file := range scopes {
		if !s.hasController(file) {
			return []Finding{warn(about, "GN059 set EnableControllers=yes and EnableExtraControllers=rdma in cgroup.conf (Slurm 25.05), or turn it on by hand: gresnet.toml(5), [limits]",
				"the cgroup controller rdma is off in /%s: jobs run without limits", path.Dir(file))}
		}
	}
	return []Finding{ok(about, "jobs have the cgroup controller rdma")}
}

func (s Site) hasController(file string) bool {
	text, err := fs.ReadFile(s.Root, file)
	return err == nil && slices.Contains(strings.Fields(string(text)), "rdma")
}
