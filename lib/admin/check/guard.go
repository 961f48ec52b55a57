package check

import (
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/slurm"
)

// guard returns what keeps a job from the HCAs of its user's others in shared mode.
func (s Site) guard() []Finding {
	want := s.Config.Access.Guard
	switch {
	case s.Inventory.Mode == rdma.Exclusive:
		return nil // the kernel itself does
	case want == config.GuardOff:
		return []Finding{warn("guard", `GN081 say guard = "auto" in [access], or use exclusive mode`, "off: jobs of one user can open each other's HCAs")}
	case s.GuardErr == nil:
		return []Finding{ok("guard", "a job's HCAs are opened by its own cgroup alone")}
	case want == config.GuardRequired:
		return []Finding{fail("guard", hint.Whole(s.GuardErr), "no job gets an HCA: %s", s.GuardErr)}
	}
	return []Finding{warn("guard", hint.Whole(s.GuardErr), "jobs of one user can open each other's HCAs: %s", s.GuardErr)}
}

// proctrack must give each job a cgroup, by which the guard knows it. Slurm does
// so if nothing is said (Slurm src/common/read_config.h:DEFAULT_PROCTRACK_TYPE).
func (s Site) proctrack(conf slurm.Conf) []Finding {
	kind, want := conf.Last("proctracktype"), s.Config.Access.Guard
	if s.InventoryErr != nil || s.Inventory.Mode == rdma.Exclusive || want == config.GuardOff || kind == "" || kind == "proctrack/cgroup" {
		return nil
	}
	const do = "GN082 set ProctrackType=proctrack/cgroup"
	if want == config.GuardRequired {
		return []Finding{fail("guard", do, "ProctrackType is %s: steps with HCAs fail, since their jobs have no cgroup", kind)}
	}
	return []Finding{warn("guard", do, "ProctrackType is %s: jobs of one user can open each other's HCAs, since they have no cgroup", kind)}
}
