package config

// How much goes into the systemd journal.
const (
	LogWarnings = "warning" // what went wrong
	LogEvents   = "notice"  // and what became of leases and HCAs
	LogSteps    = "info"    // and each step
)

// Log is the table [log]. What goes to stderr, and so into slurmd's log, is not its.
type Log struct {
	Level string // LogWarnings, LogEvents or LogSteps
}

func (l *Log) read(t table) {
	t.Allow(
		// `"info"` | each step; `"notice"`: leases and HCAs, without the steps; `"warning"`: warnings and
		// errors
		"level",
	)
	t.Choose("level", &l.Level, LogWarnings, LogEvents, LogSteps)
}
