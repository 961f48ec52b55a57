package config

import "gresnet/lib/words/document"

// What becomes of an HCA whose port comes home without its link, or with a slower one.
const (
	HealthWarn       = "warn"       // a person is told
	HealthQuarantine = "quarantine" // and no job gets it
	HealthOff        = "off"        // nobody looks
)

// Health is the table [health].
type Health struct {
	Port string // HealthWarn, HealthQuarantine or HealthOff
}

func (h *Health) read(t document.Table) {
	t.Allow(
		// `"warn"` | if a port comes home without the link that it had when the job got it, or with a
		// slower one, slurmd's log has a line; `"quarantine"`: the epilog fails and no job gets the HCA;
		// `"off"`: nobody looks
		"port",
	)
	t.Choose("port", &h.Port, HealthWarn, HealthQuarantine, HealthOff)
}
