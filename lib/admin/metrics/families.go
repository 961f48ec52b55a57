// Package metrics keeps what a site wants to count of gresnet: a file in
// Prometheus' text format, for node_exporter's textfile collector.
//
// Nothing of gresnet is resident, so the counters live in the file: each run
// reads it, adds what it did, and replaces it. All series are there from the
// beginning, except those of ports, which begin with the first job that has the
// HCA. A file is this program's own, to the byte, or it is damaged and starts
// again, which Prometheus takes for the restart of an exporter.
//
// What running jobs count is in a file of its own, which each look writes whole: no
// prolog and no epilog waits for a look, nor a look for them (ReadRunning).
package metrics

import (
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/rdma"
)

// Kind is a metric's type in the words of the text format.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Names of metrics.
const (
	Leases      = "gresnet_leases"
	HCAs        = "gresnet_hcas"
	Mode        = "gresnet_rdma_mode"
	Runs        = "gresnet_runs_total"
	RunSeconds  = "gresnet_run_seconds"
	Moves       = "gresnet_moves_total"
	Differences = "gresnet_restore_differences_total"
	PortFaults  = "gresnet_port_faults_total"
	Refusals    = "gresnet_refusals_total"
	Quarantines = "gresnet_quarantines_total"
	CleanedUp   = "gresnet_cleaned_up_leases_total"

	SentBytes       = "gresnet_job_sent_bytes_total"
	ReceivedBytes   = "gresnet_job_received_bytes_total"
	SentPackets     = "gresnet_job_sent_packets_total"
	ReceivedPackets = "gresnet_job_received_packets_total"
)

// Names of metrics of jobs that run.
const (
	RunningSentBytes       = "gresnet_running_job_sent_bytes_total"
	RunningReceivedBytes   = "gresnet_running_job_received_bytes_total"
	RunningSentPackets     = "gresnet_running_job_sent_packets_total"
	RunningReceivedPackets = "gresnet_running_job_received_packets_total"
	RunningHardware        = "gresnet_running_job_hardware_total"
	RunningIPSentBytes     = "gresnet_running_job_ip_sent_bytes_total"
	RunningIPReceivedBytes = "gresnet_running_job_ip_received_bytes_total"
	RunningUnread          = "gresnet_running_job_hcas_unread"
)

// Family is a metric with all the values that its labels may have.
type Family struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []Label
	Bounds []float64 // of a histogram's buckets, ascending
}

// Label is a label with its values.
type Label struct {
	Name   string
	Values []string // nil: what the node has
}

// open tells whether the node decides which series a family has.
func (f Family) open() bool { return len(f.Labels) > 0 && f.Labels[0].Values == nil }

// running returns the metrics of jobs that run. A label named job would be Prometheus' own.
func running() []Family {
	labels := func(more ...string) (all []Label) {
		for _, name := range append([]string{"jobid", "user", "device"}, more...) {
			all = append(all, Label{name, nil})
		}
		return all
	}
	return []Family{
		{RunningSentBytes, Counter, "What a job that runs has sent by a port.", labels("port"), nil},
		{RunningReceivedBytes, Counter, "What a job that runs has received by a port.", labels("port"), nil},
		{RunningSentPackets, Counter, "Packets that a job that runs has sent by a port.", labels("port"), nil},
		{RunningReceivedPackets, Counter, "Packets that a job that runs has received by a port.", labels("port"), nil},
		{RunningHardware, Counter, "What else has been counted for a job that runs, where it is not zero.", labels("port", "counter"), nil},
		{RunningIPSentBytes, Counter, "What a job with a part of an HCA has sent by its interface; RDMA passes that by.", labels("interface"), nil},
		{RunningIPReceivedBytes, Counter, "What a job with a part of an HCA has received by its interface; RDMA passes that by.", labels("interface"), nil},
		{RunningUnread, Gauge, "HCAs of jobs that run whose counters were not read in time.", nil, nil},
	}
}

// counted returns the metrics that runs count, in the order of the file.
func counted() []Family {
	programs := Label{"program", []string{"prolog", "epilog", "cleanup", "boot", "release"}}
	return []Family{
		{Leases, Gauge, "Leases of jobs on this node.",
			[]Label{{"state", []string{"complete", "refused", "partial", "damaged"}}}, nil},
		{HCAs, Gauge, "HCAs of this node; no job gets one that is quarantined, unmapped or missing.",
			[]Label{{"state", []string{"free", "leased", "quarantined", "unmapped", "missing"}}}, nil},
		{Mode, Gauge, "1 for the RDMA netns mode that the node is in.",
			[]Label{{"mode", []string{string(rdma.Shared), string(rdma.Exclusive)}}}, nil},
		{Runs, Counter, "Runs by how they ended: done; undone, with the node as it was; something remains to be undone.",
			[]Label{programs, {"result", []string{"done", "undone", "remains"}}}, nil},
		{RunSeconds, Histogram, "How long runs took.",
			[]Label{programs}, []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}},
		{Moves, Counter, "Devices that were moved into jobs, or returned.",
			[]Label{{"device", []string{"rdma", "interface"}}, {"direction", []string{"out", "back"}}, {"result", []string{"done", "failed"}}}, nil},
		{Differences, Counter, "Settings of returned interfaces that were not as before.", nil, nil},
		{PortFaults, Counter, "HCAs that came back with a port without its link, with a slower one, or with more faults than [health] allows.",
			[]Label{{"what", []string{world.PortState, world.PortRate, world.PortFaults}}}, nil},
		{Refusals, Counter, "Jobs that were refused for what they asked, by the reason.",
			[]Label{{"reason", reasons()}}, nil},
		{Quarantines, Counter, "HCAs that a run has kept from later jobs.", nil, nil},
		{CleanedUp, Counter, "Leases that no epilog returned, but a cleanup or another job's prolog.", nil, nil},
		{SentBytes, Counter, "What jobs that have ended sent by a port.", ports(), nil},
		{ReceivedBytes, Counter, "What jobs that have ended received by a port.", ports(), nil},
		{SentPackets, Counter, "Packets that jobs that have ended sent by a port.", ports(), nil},
		{ReceivedPackets, Counter, "Packets that jobs that have ended received by a port.", ports(), nil},
	}
}

// ports returns the labels that node_exporter gives a port of an HCA.
func ports() []Label { return []Label{{"device", nil}, {"port", nil}} }

func reasons() []string {
	var words []string
	for _, r := range gres.Reasons() {
		words = append(words, string(r))
	}
	return words
}
