package cli

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"gresnet/lib/lease/event"
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
		t.line("start the program (CPU time; more passed if the node is busy)", w.startCPU)
	}
	t.line("read the command line and the configuration", time.Since(w.began))
	return t
}

func (t *trace) line(what string, took time.Duration) {
	fmt.Fprintf(t.to, "%10s  %s\n", milliseconds(took), what)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

func (t *trace) event(e event.Event) {
	if e.Notice != "" {
		fmt.Fprintf(t.to, "%10s  %s\n", "", e.Notice)
		return
	}
	t.line(e.Action, e.Took)
}

// end sums up.
func (t *trace) end() {
	t.line(fmt.Sprintf("all since the program's first line; %s of CPU time", milliseconds(cpuTime())), time.Since(t.began))
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
