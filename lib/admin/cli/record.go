package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/admin/metrics"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/base/trust"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
)

// recorded does a run, and counts it and writes its lines for jobs, if the configuration wants that. Nothing that
// goes wrong with these is the run's.
func (w *World) recorded(n *host.Host, program string, run func() error) error {
	if n.Config.Metrics.File == "" && n.Config.Accounting.File == "" {
		return run()
	}
	r := record{program: program}
	log := n.Log
	n.Log = func(e event.Event) {
		r.events = append(r.events, e)
		log(e)
	}
	start := time.Now()
	err := run()
	r.took, r.exit = time.Since(start), exitCode(err)
	n.Log = log
	w.account(n, n.Config.Accounting.File, r.events, poll.Accounting)
	if n.Config.Metrics.File == "" {
		return err
	}
	w.write(n, metrics.File{Path: n.Config.Metrics.File, Lock: n.State.MetricsLock(), Pending: n.State.PendingMetrics()}, r, poll.Metrics)
	return err
}

// write writes a record in a goroutine that is left behind if it does not come
// back: the folder may be on a file server that does not answer. Then a later run writes it.
func (w *World) write(n *host.Host, f metrics.File, r record, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	page := metrics.New()
	pending := hint.Join(r.count(page), f.Defer(page))
	remarks, written := poll.Within(ctx, timeout, func() (said []string) {
		if pending != nil {
			said = append(said, fmt.Sprintf("metrics lack this run: %s", pending))
		}
		restarted, err := f.Update(ctx, func(p *metrics.Page) error {
			// What was done counts, even if it cannot be told what there is now.
			if err := census(n, p); err != nil {
				said = append(said, fmt.Sprintf("metrics lack what the node has: %s", err))
			}
			return nil
		})
		if restarted != nil {
			said = append(said, fmt.Sprintf("metrics start again: %s", restarted))
		}
		if err != nil {
			said = append(said, fmt.Sprintf("no metrics: %s", err))
		}
		return said
	})
	if !written {
		remarks = []string{fmt.Sprintf("no metrics: %s was not written within %s", f.Path, timeout)}
	}
	for _, text := range remarks {
		n.Log(event.Event{Kind: event.Remark, Notice: text})
	}
}

// record is a run as it is counted.
type record struct {
	program string
	took    time.Duration
	exit    int
	events  []event.Event
}

// count adds a run to the page.
func (r record) count(p *metrics.Page) error {
	result := map[int]string{Done: "done", Undone: "undone", Remains: "remains"}[r.exit]
	err := hint.Join(
		p.Add(metrics.Runs, 1, r.program, result),
		p.Observe(metrics.RunSeconds, r.took.Seconds(), r.program))
	for _, e := range r.events {
		err = hint.Join(err, countEvent(p, e))
	}
	return err
}

func countEvent(p *metrics.Page, e event.Event) error {
	switch e.Kind {
	case event.StepDone, event.StepFailed:
		return countStep(p, e)
	case event.Differs:
		var d world.DifferencesError
		errors.As(e.Err, &d)
		return p.Add(metrics.Differences, float64(len(d.What)))
	case event.PortWorse:
		worse := world.PortError{What: world.PortState} // as that of an interface without a carrier is
		errors.As(e.Err, &worse)
		if faults := (world.FaultsError{}); errors.As(e.Err, &faults) {
			worse.What = world.PortFaults
		}
		return p.Add(metrics.PortFaults, 1, worse.What)
	case event.LeaseRefused:
		reason := e.Reason
		if reason == "" {
			reason = gres.Other
		}
		return p.Add(metrics.Refusals, 1, string(reason))
	case event.LeaseCleanedUp:
		return p.Add(metrics.CleanedUp, 1)
	case event.Traffic:
		return countTraffic(p, e)
	case event.HCAQuarantined:
		return p.Add(metrics.Quarantines, 1)
	}
	return nil
}

// countStep counts a step that moved something.
func countStep(p *metrics.Page, e event.Event) error {
	device := map[string]string{"rdma": "rdma", "link": "interface"}[e.Step]
	direction := map[string]string{"do": "out", "undo": "back"}[e.Verb]
	if device == "" || direction == "" {
		return nil
	}
	result := "done"
	if e.Kind == event.StepFailed {
		result = "failed"
	}
	return p.Add(metrics.Moves, 1, device, direction, result)
}

// countTraffic counts what a port carried. A port has the labels that node_exporter gives it.
func countTraffic(p *metrics.Page, e event.Event) error {
	if e.Port == nil || e.Port.Volume == nil {
		return nil
	}
	port := strconv.FormatUint(uint64(e.Port.Port), 10)
	return hint.Join(
		p.Add(metrics.SentBytes, float64(e.Port.SentBytes), e.Device, port),
		p.Add(metrics.ReceivedBytes, float64(e.Port.ReceivedBytes), e.Device, port),
		p.Add(metrics.SentPackets, float64(e.Port.SentPackets), e.Device, port),
		p.Add(metrics.ReceivedPackets, float64(e.Port.ReceivedPackets), e.Device, port))
}

// census puts on the page what the node has now.
func census(n *host.Host, p *metrics.Page) error {
	c, err := inspect.Count(n)
	if err != nil {
		return err
	}
	for _, mode := range []rdma.Mode{rdma.Shared, rdma.Exclusive} {
		is := 0.0
		if c.Mode == mode {
			is = 1
		}
		err = hint.Join(err, p.Set(metrics.Mode, is, string(mode)))
	}
	for _, port := range c.Ports {
		// A series that begins with its first job would have no rate for that.
		none := counters.Traffic{Port: port.Num, Volume: new(counters.Volume)}
		err = hint.Join(err, countTraffic(p, event.Event{Device: port.Device, Port: &none}))
	}
	for _, state := range []string{inspect.Complete, inspect.Refused, inspect.Partial, inspect.Damaged} {
		err = hint.Join(err, p.Set(metrics.Leases, float64(c.Leases[state]), state))
	}
	for _, state := range []string{inspect.Free, inspect.Leased, inspect.Quarantined, inspect.Unmapped, inspect.Missing} {
		err = hint.Join(err, p.Set(metrics.HCAs, float64(c.HCAs[state]), state))
	}
	return err
}

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
