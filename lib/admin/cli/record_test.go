package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/admin/metrics"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
)

// counts wants lines on a page.
func counts(t *testing.T, p *metrics.Page, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(string(p.Text()), line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
}

func TestARunIsCountedWithWhatItDid(t *testing.T) {
	p := metrics.New()
	r := record{program: "epilog", took: 300 * time.Millisecond, exit: Remains, events: []event.Event{
		{Kind: event.StepDone, Verb: "undo", Step: "rdma"},
		{Kind: event.StepFailed, Verb: "undo", Step: "link", Err: errors.New("it is stuck")},
		{Kind: event.StepDone, Verb: "do", Step: "rdma"},
		{Kind: event.StepDone, Verb: "verify", Step: "settings"},
		{Kind: event.StepDone, Verb: "do", Step: "claim"},
		{Kind: event.Differs, Err: world.DifferencesError{Interface: "ib0", What: []string{"MTU", "state"}}},
		{Kind: event.PortWorse, Err: world.PortError{What: world.PortRate}},
		{Kind: event.PortWorse, Err: fmt.Errorf("verify: %w", world.FaultsError{HCA: "mlx5_0"})},
		{Kind: event.LeaseRefused, Reason: gres.NoPolicy},
		{Kind: event.LeaseRefused},
		{Kind: event.HCAQuarantined},
		{Kind: event.LeaseCleanedUp},
		{Kind: event.Remark},
		sentBy(1, "mlx5_0", 1, 100), sentBy(2, "mlx5_0", 1, 11),
		{Kind: event.Traffic, Device: "mlx5_1", Port: &counters.Traffic{Port: 1}},
	}}
	if err := r.count(p); err != nil {
		t.Fatal(err)
	}
	counts(t, p,
		`gresnet_runs_total{program="epilog",result="remains"} 1`,
		`gresnet_runs_total{program="epilog",result="done"} 0`,
		`gresnet_run_seconds_sum{program="epilog"} 0.3`,
		`gresnet_moves_total{device="rdma",direction="back",result="done"} 1`,
		`gresnet_moves_total{device="rdma",direction="out",result="done"} 1`,
		`gresnet_moves_total{device="interface",direction="back",result="failed"} 1`,
		`gresnet_moves_total{device="interface",direction="back",result="done"} 0`,
		`gresnet_restore_differences_total 2`,
		`gresnet_port_faults_total{what="rate"} 1`,
		`gresnet_port_faults_total{what="state"} 0`,
		`gresnet_port_faults_total{what="faults"} 1`,
		`gresnet_refusals_total{reason="no_policy"} 1`,
		`gresnet_refusals_total{reason="other"} 1`,
		`gresnet_quarantines_total 1`,
		`gresnet_job_sent_bytes_total{device="mlx5_0",port="1"} 111`,
		`gresnet_cleaned_up_leases_total 1`)
}

func TestEveryReasonAndKindOfEventCanBeCounted(t *testing.T) {
	p := metrics.New()
	for _, kind := range event.Kinds() {
		for _, reason := range gres.Reasons() {
			if err := countEvent(p, event.Event{Kind: kind, Reason: reason, Verb: "do", Step: "rdma", Err: world.PortError{What: world.PortState}}); err != nil {
				t.Errorf("%s, %s: %v", kind, reason, err)
			}
		}
	}
}

// nowhere is a node that has nothing, and tells what it logs.
func nowhere(t *testing.T) (*host.Host, *[]event.Event) {
	var events []event.Event
	return &host.Host{
		State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Now: time.Now,
		Log: func(e event.Event) { events = append(events, e) },
	}, &events
}

func TestMetricsAreWrittenAfterARun(t *testing.T) {
	n, events := nowhere(t)
	f := metrics.File{Path: filepath.Join(t.TempDir(), "gresnet.prom"), Lock: n.State.MetricsLock(), Pending: n.State.PendingMetrics()}
	for range 2 {
		new(World).write(n, f, record{program: "prolog"}, time.Minute)
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err, *events)
	}
	if line := `gresnet_runs_total{program="prolog",result="done"} 2` + "\n"; !strings.Contains(string(text), line) {
		t.Errorf("the file lacks %s:\n%s", line, text)
	}
	if len(*events) != 0 {
		t.Errorf("remarks: %+v", *events)
	}
}

func TestMetricsThatCannotBeWrittenAreARemarkAndNoMore(t *testing.T) {
	n, events := nowhere(t)
	held, err := state.LockFile(context.Background(), n.State.MetricsLock())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	f := metrics.File{Path: filepath.Join(t.TempDir(), "gresnet.prom"), Lock: held.Name(), Pending: n.State.PendingMetrics()}
	sent := sentBy(1, "mlx5_0", 1, 100)
	new(World).write(n, f, record{program: "prolog", events: []event.Event{sent}}, 10*time.Millisecond) // and not for ever
	if len(*events) != 1 || (*events)[0].Kind != event.Remark || !strings.Contains((*events)[0].Notice, "no metrics: ") {
		t.Errorf("remarks: %+v", *events)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		new(World).write(n, f, record{program: "prolog", events: []event.Event{sent}}, time.Minute)
	}
	text, err := os.ReadFile(f.Path)
	if want := `gresnet_runs_total{program="prolog",result="done"} 3`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the run that waited in vain is not counted once: %v\n%s", err, text)
	}
	if want := `gresnet_job_sent_bytes_total{device="mlx5_0",port="1"} 300`; !strings.Contains(string(text), want) {
		t.Errorf("what it sent is not counted once:\n%s", text)
	}
}

func TestARunIsCountedThoughTheNodeCannotBeRead(t *testing.T) {
	n, events := nowhere(t)
	if err := os.WriteFile(filepath.Join(string(n.State), "version"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := metrics.File{Path: filepath.Join(t.TempDir(), "gresnet.prom"), Lock: n.State.MetricsLock(), Pending: n.State.PendingMetrics()}
	new(World).write(n, f, record{program: "prolog", exit: Undone}, time.Minute)
	if len(*events) != 1 || !strings.Contains((*events)[0].Notice, "metrics lack what the node has: ") {
		t.Errorf("remarks: %+v", *events)
	}
	if text, err := os.ReadFile(f.Path); err != nil || !strings.Contains(string(text), `gresnet_runs_total{program="prolog",result="undone"} 1`) {
		t.Errorf("%v: the file is\n%s", err, text)
	}
}

func TestMetricsThatAreDamagedStartAgainWithARemark(t *testing.T) {
	n, events := nowhere(t)
	f := metrics.File{Path: filepath.Join(t.TempDir(), "gresnet.prom"), Lock: n.State.MetricsLock(), Pending: n.State.PendingMetrics()}
	if err := os.WriteFile(f.Path, []byte("half a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	new(World).write(n, f, record{program: "prolog"}, time.Minute)
	if len(*events) != 1 || !strings.Contains((*events)[0].Notice, "metrics start again: ") {
		t.Errorf("remarks: %+v", *events)
	}
	if text, err := os.ReadFile(f.Path); err != nil || !strings.Contains(string(text), `result="done"} 1`) {
		t.Errorf("%v: the file is\n%s", err, text)
	}
}
