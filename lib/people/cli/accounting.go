package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gresnet/lib/hca/report"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/people/inspect"
	"gresnet/lib/words/poll"
	"gresnet/lib/words/trust"
)

// account appends a run's lines to a file. As with metrics, the goroutine is left behind if it
// does not come back, and a failure is a remark.
func (w *World) account(n *host.Host, path string, events []event.Event, timeout time.Duration) {
	if path == "" {
		return
	}
	var text strings.Builder
	for _, line := range inspect.JobLines(n.Now(), w.Getenv("SLURM_CLUSTER_NAME"), w.NodeName(), events) {
		// What is encoded are names and numbers, which cannot fail.
		_ = report.PrintLine(&text, line)
	}
	if text.Len() == 0 {
		return
	}
	err, written := poll.Within(context.Background(), timeout, func() error { return trust.Append(path, text.String()) })
	if !written {
		err = fmt.Errorf("it was not written within %s", timeout)
	}
	if err != nil {
		n.Log(event.Event{Kind: event.Remark, Notice: fmt.Sprintf("no accounting: write %s: %s", path, err)})
	}
}
