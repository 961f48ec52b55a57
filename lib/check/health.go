package check

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/inventory"
	"gresnet/lib/rdma"
	"gresnet/lib/slurm"
)

// health warns of a health check that takes what is in a job for broken, and
// would drain the node of it. Checks of gresnet's own know better
// (conf/nhc-gresnet.nhc).
func (s Site) health(conf slurm.Conf) []Finding {
	program := conf.Last("healthcheckprogram")
	if program == "" || s.InventoryErr != nil || !checksBusyNodes(conf.Last("healthchecknodestate")) {
		return nil
	}
	const nhcConf = "/etc/nhc/nhc.conf"
	text, err := fs.ReadFile(s.Root, strings.TrimPrefix(nhcConf, "/"))
	if err == nil && strings.HasPrefix(path.Base(program), "nhc") {
		return s.nhc(nhcConf, string(text))
	}
	if s.Inventory.Mode != rdma.Exclusive {
		return nil
	}
	return []Finding{warn("health check", "GN083 set HealthCheckNodeState=IDLE, or have it count HCAs as check_gresnet_hcas of /usr/share/gresnet/nhc-gresnet.nhc does", "%s runs while jobs do, and sees no HCA that is in one", program)}
}

// checksBusyNodes tells whether HealthCheckNodeState has a health check run
// beside jobs; Slurm's default is ANY.
func checksBusyNodes(states string) bool {
	idle := false
	for _, state := range strings.Split(strings.ToUpper(states), ",") {
		switch strings.TrimSpace(state) {
		case "ANY", "ALLOC", "MIXED":
			return true
		case "IDLE", "NONDRAINED_IDLE", "START_ONLY", "REBOOT_ONLY":
			idle = true
		}
	}
	return !idle
}

// nhc looks in NHC's configuration for checks that fail while jobs have HCAs.
func (s Site) nhc(file, text string) []Finding {
	var all []Finding
	number := 0
	for line := range strings.Lines(text) {
		number++
		host, check, found := strings.Cut(strings.TrimSpace(line), "||")
		fields := strings.Fields(check)
		if !found || strings.HasPrefix(host, "#") || len(fields) == 0 || !s.isFor(strings.TrimSpace(host)) {
			continue
		}
		if why := s.misses(fields); why != "" {
			const do = "GN084 have check_gresnet_hcas in its place (/usr/share/gresnet/nhc-gresnet.nhc), or set HealthCheckNodeState=IDLE"
			all = append(all, fail("health check", do, "%s:%d: %s fails while %s", file, number, strings.Join(fields, " "), why))
		}
	}
	if len(all) == 0 {
		return []Finding{ok("health check", "%s looks for nothing that jobs take away", file)}
	}
	return all
}

// isFor tells whether a line of NHC's may be for this node. Patterns are NHC's
// to match.
func (s Site) isFor(host string) bool {
	return strings.ContainsAny(host, "*?[]{}/&|!") || host == s.Node
}

// misses says what a check of NHC's misses while jobs have HCAs, nothing if it
// does not care. check_hw_ib reads /sys/class/infiniband, check_hw_eth
// /proc/net/dev (NHC scripts/lbnl_hw.nhc); what a command is after is told by its name.
func (s Site) misses(fields []string) string {
	const away = "jobs have all HCAs"
	all := !slices.ContainsFunc(s.Inventory.HCAs, func(h inventory.HCA) bool { return h.Gres == "" })
	exclusive := s.Inventory.Mode == rdma.Exclusive
	switch name := fields[0]; {
	case name == "check_hw_ib" && len(fields) > 2:
		hca, _, _ := strings.Cut(fields[2], ":")
		if exclusive && s.maps(hca) {
			return fmt.Sprintf("a job has %s", hca)
		}
	case name == "check_hw_ib":
		if exclusive && all {
			return away
		}
	case name == "check_hw_eth" && len(fields) > 1:
		if s.moves(fields[1]) {
			return fmt.Sprintf("a job has %s", fields[1])
		}
	case strings.HasPrefix(name, "check_cmd_"):
		counts := slices.ContainsFunc(fields[1:], func(f string) bool {
			return slices.Contains([]string{"ibstat", "ibstatus", "ibv_devinfo", "ibv_devices", "ibdev2netdev"}, path.Base(strings.Trim(f, `"'`)))
		})
		if exclusive && counts {
			return "jobs have HCAs"
		}
	}
	return ""
}

// maps tells whether jobs may have an HCA.
func (s Site) maps(name string) bool {
	for _, h := range s.Inventory.HCAs {
		if h.Name == name && h.Gres != "" {
			return true
		}
	}
	return false
}

// moves tells whether an interface goes into jobs.
func (s Site) moves(name string) bool {
	for _, h := range s.Inventory.HCAs {
		for _, p := range h.Ports {
			if p.Interface == name && h.Gres != "" && !h.Keep {
				return true
			}
		}
	}
	return false
}
