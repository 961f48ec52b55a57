package cli

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
)

// trace prints where the time of a run goes: a line for each step, and how long it took.
type trace struct {
	to    io.Writer
	began time.Time
}

// startTrace begins with what was before: from here on nothing is left out.
func (w *World) startTrace() *trace {
	t := &trace{w.Stderr, w.began}
	fmt.Fprintf(t.to, "%10s\n", "took")
	if w.startCPU > 0 {
		t.line(w.startCPU, host.Timing{What: "start the program (CPU time; more passed if the node is busy)"})
	}
	t.line(time.Since(w.began), host.Timing{What: "read the command line and the configuration"})
	return t
}

func (t *trace) line(took time.Duration, s host.Timing) {
	fmt.Fprintf(t.to, "%10s  %s\n", milliseconds(took), s.What)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

func (t *trace) timed(s host.Timing) { t.line(s.Took, s) }

func (t *trace) event(e event.Event) {
	if e.Notice != "" {
		fmt.Fprintf(t.to, "%10s  %s\n", "", e.Notice)
		return
	}
	t.line(e.Took, host.Timing{What: e.Deed})
}

// end sums up.
func (t *trace) end() {
	what := fmt.Sprintf("all since the program's first line; %s of CPU time", milliseconds(cpuTime()))
	t.line(time.Since(t.began), host.Timing{What: what})
}

// cpuTime is what this process has had of the CPU since it was forked. The wall
// clock of a process's start is known to a hundredth of a second only (proc(5),
// starttime), and a start is hardly anything but CPU time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
