package check

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/slurm"
)

// health warns of a health check that takes what is in a job for broken, and
// would drain the node of it. Checks of gresnet's own know better
// (conf/nhc-gresnet.nhc).
func (s Site) health(conf slurm.Conf) []Finding {
	program := conf.Last("healthcheckprogram")
	if s.InventoryErr != nil || program == "" || !runsHealthCheck(conf) || s.Config.MovesNothing() {
		return nil
	}
	script := s.script(program)
	if strings.HasPrefix(path.Base(program), "nhc") || strings.Contains(script, "nhc") {
		if text, err := fs.ReadFile(s.Root, strings.TrimPrefix(nhcConf, "/")); err == nil {
			return s.nhc(string(text))
		}
	}
	if s.Inventory.Mode != rdma.Exclusive {
		return nil
	}
	if strings.Contains(script, "gresnet") {
		return []Finding{ok("health check", "%s asks gresnet who has which HCA", program)}
	}
	return []Finding{warn("health check", "GN083 have it leave out the HCAs that "+s.State+"/in-use lists, or count HCAs as check_gresnet_hcas of /usr/share/gresnet/nhc-gresnet.nhc does", "%s runs while jobs do, and sees no HCA that is in one", program)}
}

// nhcConf is the file of NHC's checks.
const nhcConf = "/etc/nhc/nhc.conf"

// script returns the text of a script, nothing of another file.
func (s Site) script(file string) string {
	text, err := fs.ReadFile(s.Root, strings.TrimPrefix(path.Clean(file), "/"))
	if err != nil || !strings.HasPrefix(string(text), "#!") {
		return ""
	}
	return string(text)
}

// runsHealthCheck tells whether slurmctld has nodes with jobs run HealthCheckProgram: each HealthCheckInterval
// seconds, which is never unless somebody has set it, and where HealthCheckNodeState says so; the
// default is ANY (Slurm src/slurmctld/controller.c, src/common/read_config.c:_health_node_state).
func runsHealthCheck(conf slurm.Conf) bool {
	if every, err := strconv.ParseUint(conf.Last("healthcheckinterval"), 0, 64); err == nil && every == 0 || conf.Last("healthcheckinterval") == "" {
		return false
	}
	idle := false
	for state := range strings.SplitSeq(strings.ToUpper(conf.Last("healthchecknodestate")), ",") {
		switch state {
		case "ANY", "ALLOC", "MIXED":
			return true
		case "IDLE", "NONDRAINED_IDLE", "START_ONLY", "REBOOT_ONLY":
			idle = true
		}
	}
	return !idle
}

// infiniband are words of checks that look for HCAs: NHC's own check_hw_ib, others that are called so, and
// programs that list HCAs.
var infiniband = regexp.MustCompile(`\b(check_(\w+_)?(ib|rdma|hcas?|infiniband|roce)(_\w+)?|ibstat|ibstatus|ibv_devinfo)\b`)

// nhc looks in NHC's configuration for words of checks that fail while jobs have HCAs, or their interfaces.
// Which line is for which node only NHC knows.
func (s Site) nhc(text string) []Finding {
	movable := s.Movable()
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line, _, _ = strings.Cut(line, "#"); strings.Contains(line, "gresnet") {
			continue // it asks who has which HCA
		}
		names := func(word string) bool { return slices.Contains(movable, word) }
		if s.Inventory.Mode == rdma.Exclusive && infiniband.MatchString(line) || slices.ContainsFunc(strings.Fields(line), names) {
			return []Finding{warn("health check", "GN084 have check_gresnet_hcas in its place (/usr/share/gresnet/nhc-gresnet.nhc), or set HealthCheckNodeState=IDLE",
				"%s:%d looks for an HCA or an interface that a job may have: NHC would take it for broken", nhcConf, n)}
		}
	}
	return []Finding{ok("health check", "%s looks for nothing that jobs take away", nhcConf)}
}

// counters warns of limits for what no port of the node counts.
func (s Site) counters() (all []Finding) {
	const ports = "sys/class/infiniband/*/ports/*"
	if there, _ := fs.Glob(s.Root, ports); len(there) == 0 {
		return nil // jobs have them, or there are none
	}
	for _, name := range s.Config.Health.Counters() {
		if there, _ := fs.Glob(s.Root, ports+"/*counters/"+name); len(there) == 0 {
			all = append(all, warn("health", "GN642 ls /"+ports+"/*counters", "no port counts %s", name))
		}
	}
	return all
}
