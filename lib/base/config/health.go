package config

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// What becomes of an HCA whose port comes back without its link, or with a slower one.
const (
	HealthWarn       = "warn"       // a person is told
	HealthQuarantine = "quarantine" // and no job gets it
	HealthOff        = "off"        // ports are not looked at
)

// Health is the table [health].
type Health struct {
	Port string // HealthWarn, HealthQuarantine or HealthOff
	// By how much counters of a port may grow while a job has the HCA: beyond that a person is told, or
	// no job gets the HCA. nil: no limit.
	Warn, Quarantine map[string]uint64
}

// linkCounters are the counters that may quarantine an HCA: cable, port and switch make them grow. Users can
// make others grow as they like, rx_icrc_encapsulated by datagrams to port 4791 that are no RoCE, and no user may take
// an HCA away from other jobs.
var linkCounters = []string{
	"link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors",
}

func (h *Health) read(t table) {
	t.Allow(
		// `"warn"` | if a port is restored without the link that it had when the job got it, or with a slower
		// one, slurmd's log has a line; `"quarantine"`: the epilog fails and no job gets the HCA; `"off"`:
		// there is no check
		"port",
		// | by how much a port's `counters` and `hw_counters` may grow during a job before slurmd's log
		// warns: `{ symbol_error = 100 }`
		"warn",
		// | the same for quarantine: `link_downed`, `link_error_recovery`, `symbol_error`, `port_rcv_errors`,
		// `local_link_integrity_errors`. Users can make other counters grow
		"quarantine",
	)
	t.Choose("port", &h.Port, HealthWarn, HealthQuarantine, HealthOff)
	h.Warn = readLimits(t, "warn", nil)
	h.Quarantine = readLimits(t, "quarantine", linkCounters)
}

// Counters returns the names of all counters that have a limit.
func (h Health) Counters() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(h.Warn)), maps.Keys(h.Quarantine))
	slices.Sort(names)
	return slices.Compact(names)
}

// isFaultName tells whether a file in sysfs may have a name.
func isFaultName(name string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
	return name != "" && strings.Trim(name, allowed) == ""
}

// readLimits reads a table of counters with numbers, nil if there is none. Without a list of known ones any
// name will do that a file in sysfs may have, except those of counters that each job makes grow.
func readLimits(t table, key string, known []string) map[string]uint64 {
	of := t.Table(key)
	if known != nil {
		of.Allow(known...)
	}
	var limits map[string]uint64
	for _, name := range of.Keys() {
		n, there := valueOf[int64](of, name, "a number")
		switch {
		case !isFaultName(name) || strings.HasSuffix(name, "_data") || strings.HasSuffix(name, "_packets"):
			of.Fail(name, "GN640 ls /sys/class/infiniband/*/ports/*/*counters", "that is no counter of faults")
		case there && (n < 0 || n > math.MaxUint32):
			of.Fail(name, "", "%d is not from 0 to %d", n, math.MaxUint32)
		case there && limits == nil:
			limits = map[string]uint64{name: uint64(n)}
		case there:
			limits[name] = uint64(n)
		}
	}
	return limits
}
