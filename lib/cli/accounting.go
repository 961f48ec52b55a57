package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gresnet/lib/counters"
	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/trust"
)

// accountingVersion is that of a line's shape. A later shape may have more keys under the same version.
const accountingVersion = 1

// accountingTimeout bounds what a job waits for its line.
const accountingTimeout = 5 * time.Second

// jobLine is what the file of [accounting] has of a job.
type jobLine struct {
	Version int       `json:"version"`
	Time    string    `json:"time"` // when the HCAs came home
	Cluster string    `json:"cluster,omitempty"`
	Node    string    `json:"node"`
	Job     uint32    `json:"job"`
	Run     string    `json:"run"`
	HCAs    []hcaLine `json:"hcas"`
}

type hcaLine struct {
	Device string             `json:"device"`
	HCA    string             `json:"hca"`
	Ports  []counters.Traffic `json:"ports"`
}

// jobLines are the lines of all jobs whose HCAs a run brought home. A sweep may have several.
func jobLines(now time.Time, cluster, node string, events []event.Event) (lines []*jobLine) {
	var line *jobLine
	for _, e := range events {
		if e.Kind != event.Traffic || e.Port == nil {
			continue
		}
		if line == nil || line.Job != e.Job || line.Run != e.Run {
			line = &jobLine{accountingVersion, now.UTC().Format(time.RFC3339), cluster, node, e.Job, e.Run, nil}
			lines = append(lines, line)
		}
		if last := len(line.HCAs) - 1; last >= 0 && line.HCAs[last].HCA == e.HCA {
			line.HCAs[last].Ports = append(line.HCAs[last].Ports, *e.Port)
			continue
		}
		line.HCAs = append(line.HCAs, hcaLine{e.Device, e.HCA, []counters.Traffic{*e.Port}})
	}
	return lines
}

// account appends a run's lines to a file. As with metrics, the goroutine is left behind if it
// does not come back, and a failure is a remark.
func (w *World) account(n *host.Host, path string, events []event.Event, timeout time.Duration) {
	if path == "" {
		return
	}
	var text strings.Builder
	for _, line := range jobLines(n.Now(), w.Getenv("SLURM_CLUSTER_NAME"), w.NodeName(), events) {
		// What is encoded are names and numbers, which cannot fail.
		_ = json.NewEncoder(&text).Encode(line)
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
