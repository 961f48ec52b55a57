package cli

import (
	"fmt"
	"strings"
	"time"

	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/inspect"
	"gresnet/lib/report"
	"gresnet/lib/trust"
)

// accountingTimeout bounds what a job waits for its line.
const accountingTimeout = 5 * time.Second

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
	ended := make(chan error, 1)
	go func() { ended <- trust.Append(path, text.String()) }()
	var err error
	select {
	case err = <-ended:
	case <-time.After(timeout):
		err = fmt.Errorf("it was not written within %s", timeout)
	}
	if err != nil {
		n.Log(event.Event{Kind: event.Remark, Notice: fmt.Sprintf("no accounting: write %s: %s", path, err)})
	}
}
