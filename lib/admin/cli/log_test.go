package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/gres"
	"gresnet/lib/lease"
	"gresnet/lib/lease/event"
)

// sent is a line as the journal would get it.
type sent struct {
	text     string
	priority journal.Priority
	fields   map[string]string
}

// listening is a world whose journal is a list.
func listening() (*World, *[]sent) {
	var lines []sent
	return &World{
		Getenv: func(string) string { return "" },
		name:   "gresnet-prolog", changes: true,
		Send: func(text string, p journal.Priority, fields map[string]string) error {
			lines = append(lines, sent{text, p, fields})
			return errors.New("the journal is full") // which stops nobody
		},
	}, &lines
}

func TestEachKindOfEventHasAMessageIDOfItsOwn(t *testing.T) {
	seen := map[string]event.Kind{idProblem: "problem"}
	for _, kind := range event.Kinds() {
		id := messages[kind].id
		if other, there := seen[id]; there {
			t.Errorf("%s and %s have one MESSAGE_ID", kind, other)
		}
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
			t.Errorf("%s: %q is no 128-bit id", kind, id)
		}
		seen[id] = kind
	}
}

func TestEachEventIsDocumentedWithItsPriority(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range event.Kinds() {
		row := "| `" + string(kind) + "` | " + map[journal.Priority]string{
			journal.PriInfo: "info", journal.PriNotice: "notice", journal.PriWarning: "warning",
		}[messages[kind].priority] + " |"
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/operators.md does not have %s", row)
		}
	}
	if row := "| `problem` | err |"; !strings.Contains(string(text), row) {
		t.Errorf("docs/operators.md does not have %s", row)
	}
}

func TestTheLevelSaysHowMuchIsLogged(t *testing.T) {
	events := []event.Event{
		{Kind: event.StepDone, Action: "do rdma mlx5_3"},
		{Kind: event.LeaseTaken, Notice: "the lease is taken"},
		{Kind: event.StepFailed, Action: "undo link ib0", Err: errors.New("it is stuck")},
	}
	for level, want := range map[string][]string{
		config.LogSteps:    {"do rdma mlx5_3", "the lease is taken", "undo link ib0: it is stuck"},
		config.LogEvents:   {"the lease is taken", "undo link ib0: it is stuck"},
		config.LogWarnings: {"undo link ib0: it is stuck"},
	} {
		w, lines := listening()
		for _, e := range events {
			w.log(level, e)
		}
		var got []string
		for _, l := range *lines {
			got = append(got, l.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("level %s: %q, wanted %q", level, got, want)
		}
	}
}

func TestAnEventIsALineWithFields(t *testing.T) {
	for _, c := range []struct {
		event    event.Event
		text     string
		priority journal.Priority
		fields   map[string]string
	}{
		{
			event.Event{Kind: event.StepDone, Job: 4711, HCA: "0002:c903:00ab:0000", Action: "do rdma mlx5_3", Took: 1500 * time.Microsecond},
			"job 4711: do rdma mlx5_3", journal.PriInfo,
			map[string]string{"MESSAGE_ID": messages[event.StepDone].id, "EVENT": "step-done", "JOB_ID": "4711", "HCA": "0002:c903:00ab:0000", "STEP": "do rdma mlx5_3", "DURATION_US": "1500"},
		},
		{
			event.Event{Kind: event.LeaseRefused, Job: 4711, Notice: "refused: no", Reason: gres.TooMany, ID: "GN009"},
			"job 4711: refused: no", journal.PriNotice,
			map[string]string{"MESSAGE_ID": messages[event.LeaseRefused].id, "EVENT": "lease-refused", "JOB_ID": "4711", "REASON": "too_many", "GRESNET_ID": "GN009"},
		},
		{
			event.Event{Kind: event.TableUnread, Warning: "read claims/x: it is not as it was written"},
			"read claims/x: it is not as it was written", journal.PriWarning,
			map[string]string{"MESSAGE_ID": messages[event.TableUnread].id, "EVENT": "table-unread", "GRESNET_ID": "GN006"},
		},
	} {
		w, lines := listening()
		w.log(config.LogSteps, c.event)
		c.fields["SYSLOG_IDENTIFIER"] = "gresnet-prolog"
		if len(*lines) != 1 || (*lines)[0].text != c.text || (*lines)[0].priority != c.priority || !maps.Equal((*lines)[0].fields, c.fields) {
			t.Errorf("got %v, wanted %q with priority %d and %v", *lines, c.text, c.priority, c.fields)
		}
	}
}

func TestTrafficHasFieldsToAddUp(t *testing.T) {
	w, lines := listening()
	w.log(config.LogEvents, sentBy(4711, "mlx5_0", 2, 100))
	w.log(config.LogEvents, event.Event{Kind: event.Traffic, Device: "mlx5_0", Port: &counters.Traffic{Port: 2}})
	if text := (*lines)[0].text; text != "job 4711: mlx5_0 port 2 sent 100 bytes and received 0" {
		t.Errorf("the line is %q", text)
	}
	want := map[string]string{
		"DEVICE": "mlx5_0", "PORT": "2", "JOB_ID": "4711", "HCA": "id of mlx5_0",
		"SENT_BYTES": "100", "RECEIVED_BYTES": "0", "SENT_PACKETS": "0", "RECEIVED_PACKETS": "0",
	}
	for name, value := range want {
		if got := (*lines)[0].fields[name]; got != value {
			t.Errorf("%s is %q, wanted %q", name, got, value)
		}
	}
	if _, there := (*lines)[1].fields["SENT_BYTES"]; there {
		t.Error("what is not known has a number")
	}
}

func TestAProblemCarriesTheIDOfItsMessageAndWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"GN777": fmt.Errorf("take: %w", hint.With(errors.New("it is gone"), "GN777 look for it")),
		"GN001": errors.New("it is gone"),
		"GN002": fmt.Errorf("%w: %w", lease.ErrRemains, hint.With(errors.New("it is gone"), "GN777 look for it")),
	} {
		w, lines := listening()
		var said strings.Builder
		w.Stderr, w.Getenv = &said, func(string) string { return "" }
		w.problem(err)
		first, second, _ := strings.Cut(said.String(), "\n")
		if !strings.HasSuffix(first, " ["+want+"]") || strings.Count(said.String(), "GN") != 1 {
			t.Errorf("it said %q, wanted %s at the end of the first line", said.String(), want)
		}
		_, do, _ := strings.Cut(strings.TrimSpace(second), ": ")
		if len(*lines) != 1 || (*lines)[0].fields["GRESNET_ID"] != want || !strings.HasSuffix((*lines)[0].text, " ["+want+"]; "+do) || !strings.HasPrefix(do, "hint: ") {
			t.Errorf("the journal has %v, wanted %s", *lines, want)
		}
	}
}

func TestAWarningCarriesTheIDOfItsKind(t *testing.T) {
	for _, kind := range []event.Kind{event.PortWorse, event.ModeWrong, event.TableUnread, event.Remark} {
		if warningID(kind) == "" {
			t.Errorf("warnings of kind %s have no id", kind)
		}
	}
}

func TestTheJournalHasTheProblemsOfWhatSlurmdRuns(t *testing.T) {
	for args, want := range map[string]int{"": 1, "--trace": 1} {
		w, lines := listening()
		w.changes, w.Stdout, w.Stderr = false, io.Discard, io.Discard
		w.Args = append([]string{"gresnet-x"}, strings.Fields(args)...)
		if code := w.ServeSlurmd("gresnet-x", "", func(Flags) error { return errors.New("no") }); code != Undone || len(*lines) != want {
			t.Errorf("%q: exit %d, the journal has %d lines, wanted %d", args, code, len(*lines), want)
		}
	}
}
