package environment

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"gresnet/lib/base/job"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
)

// A job that gets fewer HCAs than it could expect is told why in its steps, by one line that the
// prolog leaves for the SPANK plugin. Most such jobs get no HCA, and so have no lease: the line is
// in a file of its own, which the job's epilog removes.

// maxNotice bounds the length of the line; the journal has all of it.
const maxNotice = 1000

// Notify tells a job why it has fewer HCAs than it could expect. If it cannot, the job keeps what
// it gets all the same.
func Notify(n *host.Host, j job.Job, why []string) {
	if len(why) == 0 {
		return
	}
	text := state.Printable(fmt.Sprintf("job %d has fewer HCAs than it could expect on %s: %s", j.ID, cmp.Or(j.Node, "this node"), strings.Join(why, "; ")))
	text = text[:min(len(text), maxNotice)]
	n.Notice(j.ID, "the job is told: %s", text)
	err := os.MkdirAll(n.State.Notices(), 0o700)
	if err == nil {
		err = os.WriteFile(n.State.Notice(j.ID), []byte(text+"\n"), 0o600)
	}
	if err != nil {
		n.Notice(j.ID, "tell the job why it has fewer HCAs: %s", err)
	}
}

// Forget removes what the prolog left for the job's steps beside the lease: the line, and the record of
// its run.
func Forget(n *host.Host, job uint32) {
	for _, path := range []string{n.State.Notice(job), n.State.Record(job)} {
		if err := state.Remove(path); err != nil {
			n.Notice(job, "remove what the prolog left for the job's steps: %s", err)
		}
	}
}
