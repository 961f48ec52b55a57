package report

import (
	"fmt"
	"io"
	"strings"
)

// What becomes of a trial.
const (
	Good        = "good"
	Differs     = "differs"     // the node is not as it was
	Failed      = "failed"      // something else went wrong
	NoJobs      = "refused"     // a prolog refuses it
	Interrupted = "interrupted" // somebody ended the trial before this one's end
)

// Judge gives an HCA its verdict.
func (t *Tried) Judge(ended bool) {
	switch {
	case len(t.Differences) > 0:
		t.Verdict = Differs
	case len(t.Faults) > 0:
		t.Verdict = Failed
	case t.Refused != "":
		t.Verdict = NoJobs
	case !ended:
		t.Verdict = Interrupted
	default:
		t.Verdict = Good
	}
}

// Table prints a line for each HCA, and below what a person must read of it.
func (t Trial) Table(w io.Writer) error {
	table := columns(w)
	fmt.Fprintln(table, "HCA\tDRIVER\tFIRMWARE\tKERNEL\tMODE\tROUNDS\tKILLS\tIN\tOUT\tLINK\tPEER\tDIFFERENCES\tVERDICT")
	for _, h := range t.HCAs {
		peer := "-"
		if h.Gbits > 0 {
			peer = fmt.Sprintf("%.1f Gb/s", h.Gbits)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.2f s\t%.2f s\t%.2f s\t%s\t%d\t%s\n", h.Name, dash(h.Driver), dash(h.Firmware), t.Kernel, t.Mode,
			h.Rounds, h.Kills, h.In, h.Out, h.Training, peer, len(h.Differences), h.Verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, h := range t.HCAs {
		if h.Verdict == Good {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n", h.Name, h.Verdict)
		for _, line := range append(append([]string{}, h.Faults...), h.Differences...) {
			fmt.Fprintf(w, "  %s\n", line)
		}
		if h.Refused != "" {
			fmt.Fprintf(w, "  %s\n", h.Refused)
		}
	}
	for _, l := range []struct {
		title string
		lines []string
	}{{"not compared, since the node does not say it", t.Unread}, {"not compared, since it changes by itself", t.Restless}} {
		if len(l.lines) > 0 {
			fmt.Fprintf(w, "\n%s:\n  %s\n", l.title, strings.Join(l.lines, "\n  "))
		}
	}
	return nil
}
