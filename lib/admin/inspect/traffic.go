package inspect

import (
	"time"

	"gresnet/lib/hca/report"
	"gresnet/lib/lease/event"
)

// JobLines returns the lines of all jobs whose HCAs a run returned. A cleanup may have several.
func JobLines(now time.Time, cluster, node string, events []event.Event) (lines []*report.JobLine) {
	var line *report.JobLine
	for _, e := range events {
		if e.Kind != event.Traffic || e.Port == nil {
			continue
		}
		if line == nil || line.Job != e.Job || line.Run != e.Run {
			line = &report.JobLine{Time: now.UTC().Truncate(time.Second), Cluster: cluster, Node: node, Job: e.Job, Run: e.Run}
			lines = append(lines, line)
		}
		h := report.Bare(e.Device, e.Identity)
		if last := len(line.HCAs) - 1; last < 0 || line.HCAs[last].ID != h.ID {
			line.HCAs = append(line.HCAs, h)
		}
		of := &line.HCAs[len(line.HCAs)-1]
		of.Ports = append(of.Ports, carried(e))
	}
	return lines
}

// carried returns a port with what it carried.
func carried(e event.Event) report.Port {
	p := report.Port{Num: e.Port.Port, Hardware: e.Port.Hardware}
	if v := e.Port.Volume; v != nil {
		p.SentBytes, p.ReceivedBytes, p.SentPackets, p.ReceivedPackets = &v.SentBytes, &v.ReceivedBytes, &v.SentPackets, &v.ReceivedPackets
	}
	return p
}
