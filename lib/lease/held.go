package lease

import (
	"fmt"

	"gresnet/lib/gres"
	"gresnet/lib/lock"
)

// heldError says who has the HCA that a job is entitled to.
type heldError struct {
	job   uint32
	entry gres.Entry
	by    lock.Claim
}

func (e heldError) Error() string {
	what := fmt.Sprintf("claim %s (%s %d) for job %d", e.entry.HCA.Name, e.entry.Gres, e.entry.Index, e.job)
	if e.by.Quarantined != "" {
		return fmt.Sprintf("%s: it is quarantined since job %d: %s", what, e.by.Job, e.by.Quarantined)
	}
	return fmt.Sprintf("%s: job %d has it since %s", what, e.by.Job, e.by.Since.Format("2006-01-02 15:04:05"))
}

// Hint says what to do about it.
func (e heldError) Hint() string {
	if e.by.Quarantined != "" {
		return "mend what is wrong with the HCA, then run: gresnet-epilog release " + e.entry.HCA.Name
	}
	return fmt.Sprintf("see whether job %d still runs here; if not, run: gresnet-epilog sweep %d", e.by.Job, e.by.Job)
}
