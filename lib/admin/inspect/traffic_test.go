package inspect

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/report"
	"gresnet/lib/lease/event"
	"gresnet/test/golden"
)

// sentBy returns the event of a port that sent so many bytes for a job.
func sentBy(job uint32, device string, port uint32, bytes uint64) event.Event {
	return event.Event{
		Kind: event.Traffic, Job: job, Run: "0", Identity: node.ID{GUID: "guid of " + device}, Device: device,
		Port: &counters.Traffic{Port: port, Volume: &counters.Volume{SentBytes: bytes}},
	}
}

func TestAJobHasOneLineWithAllPortsOfAllItsHCAs(t *testing.T) {
	unknown := sentBy(2, "mlx5_2", 1, 0)
	unknown.Port = &counters.Traffic{Port: 1, Hardware: map[string]uint64{"out_of_sequence": 12}}
	var got bytes.Buffer
	for _, line := range JobLines(time.Unix(1e9, 5), "", "n7", []event.Event{
		{Kind: event.Remark, Job: 1},
		sentBy(1, "mlx5_0", 1, 10), sentBy(1, "mlx5_0", 2, 20), sentBy(1, "mlx5_1", 1, 30),
		{Kind: event.LeaseReturned, Job: 1},
		sentBy(2, "mlx5_1", 1, 40), unknown,
	}) {
		if err := report.PrintLine(&got, line); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "jobs.jsonl", got.String())
	if n := strings.Count(got.String(), "\n"); n != 2 {
		t.Errorf("%d lines", n)
	}
}
