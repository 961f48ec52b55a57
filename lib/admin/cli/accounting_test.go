package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/lease/event"
	"gresnet/test/netnstest"
)

// sentBy is the event of a port that sent so many bytes for a job.
func sentBy(job uint32, device string, port uint32, bytes uint64) event.Event {
	return event.Event{
		Kind: event.Traffic, Job: job, Run: "0", HCA: "id of " + device, Identity: node.ID{GUID: device}, Device: device,
		Port: &counters.Traffic{Port: port, Volume: &counters.Volume{SentBytes: bytes}},
	}
}

// told is what one reads in the file.
type told struct {
	Node string
	Job  uint32
	HCAs []struct {
		Ports []struct {
			Sent uint64 `json:"sent_bytes"`
		}
	}
}

func TestEachRunAddsItsLines(t *testing.T) {
	dir := netnstest.RootsFolder(t)
	n, events := nowhere(t)
	w := &World{Getenv: func(name string) string { return map[string]string{"SLURMD_NODENAME": "n7"}[name] }}
	path := filepath.Join(dir, "jobs")
	for job := range uint32(3) {
		w.account(n, path, []event.Event{sentBy(job, "mlx5_0", 1, uint64(job))}, time.Minute)
		w.account(n, path, []event.Event{{Kind: event.LeaseReturned, Job: job}}, time.Minute)
	}
	if len(*events) > 0 {
		t.Error(*events)
	}
	text, err := os.ReadFile(path)
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%v: %s", err, text)
	}
	for job, line := range lines[:3] {
		var is told
		if err := json.Unmarshal([]byte(line), &is); err != nil || is.Job != uint32(job) || is.HCAs[0].Ports[0].Sent != uint64(job) || is.Node != "n7" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

func TestAFileThatCannotBeWrittenIsARemarkAndNoMore(t *testing.T) {
	n, events := nowhere(t)
	w := &World{Getenv: func(string) string { return "" }}
	w.account(n, filepath.Join(t.TempDir(), "jobs"), []event.Event{sentBy(1, "mlx5_0", 1, 1)}, time.Minute)
	if len(*events) != 1 || (*events)[0].Kind != event.Remark || !strings.Contains((*events)[0].Notice, "no accounting: write ") {
		t.Errorf("events: %+v", *events)
	}
}
