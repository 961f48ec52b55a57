// Package cli is what gresnet, gresnet-prolog and gresnet-epilog have in common: the outside
// world, which is handed in, the exit codes, and what is said to whom. It has the few flags that
// slurmd's two programs know; the command line for people is gresnet's own.
//
// stdout is for what was asked for. stderr is for what a person must act on: a line that says
// what happened, then one that says what to do; slurmd puts both into its log. All else goes to
// the systemd journal, if the node has one and the configuration wants it there: one line for
// each event, with fields to search for.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/plain"
	"gresnet/lib/kernel/bpf"
	_ "gresnet/lib/kernel/processor"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
)

// Exit codes, which slurmd and operators rely on.
const (
	Done    = 0
	Undone  = 1 // it failed, and the HCAs are as they were
	Remains = 2 // it failed, and something remains to be undone
)

// version is stamped by the build.
var version = "unknown"

// World is the outside as a program meets it.
type World struct {
	Args   []string
	Getenv func(string) string
	Stdout io.Writer
	Stderr io.Writer
	// Send puts a line into the systemd journal; nil if the node has none.
	Send func(text string, p journal.Priority, fields map[string]string) error

	name     string        // of the program
	changes  bool          // the run changes the node, or is to
	began    time.Time     // when the program's first line ran
	startCPU time.Duration // the CPU time used by then
	trace    *trace        // nil: it is not shown
}

// Outside is the world of this process.
func Outside() *World {
	w := &World{Args: os.Args, Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr, began: time.Now(), startCPU: cpuTime()}
	// Not journal.Enabled, which has package net make two sockets and an epoll.
	if _, err := os.Stat(journaldSocket); err == nil {
		if j, err := openJournald(journaldSocket); err == nil {
			w.Send = (&sender{send: j.send}).Send
		}
	}
	return w
}

// Flags are the flags that somebody gave: *urfave.Context, or those of a program of slurmd's.
type Flags interface {
	String(name string) string
	Bool(name string) bool
	IsSet(name string) bool
}

// Where things are, unless a flag says otherwise.
const (
	ConfigFile = "/etc/gresnet/gresnet.toml"
	StateDir   = "/run/gresnet"
)

// Run runs a program and returns its exit code.
func (w *World) Run(name string, do func() error) int {
	// A short-lived program that holds a few megabytes is faster without collecting any.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(12 << 20)
	w.name = name
	w.Stdout, w.Stderr = plain.Writer(w.Stdout), plain.Writer(w.Stderr)
	err := do()
	if err == nil {
		return Done
	}
	w.problem(err)
	return exitCode(err)
}

// Changing says that the run is to change the node. The journal has its problems, and slurmd's: what
// somebody has mistyped, or only looked at, would hide these.
func (w *World) Changing() { w.changes = true }

// exitCode is how a run ended.
func exitCode(err error) int {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, lease.ErrRemains):
		return Remains
	}
	return Undone
}

// problem tells a person what went wrong, and what to do.
func (w *World) problem(err error) {
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	id, do := hint.Cut(w.hint(err))
	line += hint.Tag(id)
	fmt.Fprintf(w.Stderr, "%s: %s\n", w.name, line)
	fmt.Fprintf(w.Stderr, "%s: hint: %s\n", w.name, do)
	if w.changes {
		w.logProblem(line+"; hint: "+do, id, exitCode(err))
	}
}

// hint is an error's own hint, or what always can be done. It begins with the id of the message.
func (w *World) hint(err error) string {
	switch text := hint.Whole(err); {
	case (errors.Is(err, lease.ErrDamaged) || errors.Is(err, lease.ErrLost)) && text != "":
		return text
	case errors.Is(err, lease.ErrRemains) && w.Getenv("SLURM_JOB_ID") == "":
		return "GN002 HCAs that were not returned are kept from later jobs (gresnet status); fix the cause, then run this again"
	case errors.Is(err, lease.ErrRemains):
		return "GN003 HCAs that were not returned are kept from later jobs; fix the cause, then run: SLURM_JOB_ID=" + w.Getenv("SLURM_JOB_ID") + " gresnet-epilog"
	case text != "":
		return text
	}
	return "GN001 the node is as it was; fix the cause, then return the node to service"
}

// Site is the site's configuration for root, who alone sees what it is about.
func Site(c Flags) (config.Config, error) {
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		return cfg, err
	}
	return cfg, Root()
}

// Lenient is the configuration for one who works without it, too: of a file with
// an error in it a person is told, and the defaults hold.
func (w *World) Lenient(c Flags) config.Config {
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		fmt.Fprintf(w.Stderr, "%s: warning: %s: the defaults hold%s\n", w.name, err, hint.Tag(hint.ID(err)))
		return config.Default()
	}
	return cfg
}

// OnNode does a run of a program, which takes or returns leases, on this node.
func (w *World) OnNode(c Flags, cfg config.Config, program string, run func(*lease.Host) error) error {
	n := w.Host(c, cfg)
	if w.trace != nil {
		defer w.trace.end()
	}
	return w.recorded(n, program, func() error { return run(lease.On(n)) })
}

// Host returns the node that this process runs on.
func (w *World) Host(c Flags, cfg config.Config) *host.Host {
	n := &host.Host{
		State:  state.Dir(c.String("state")),
		Sys:    sysfs.At("/sys"),
		Proc:   os.DirFS("/proc"),
		Run:    os.DirFS("/run"),
		Dev:    "/dev/infiniband",
		CM:     "/sys/kernel/config/rdma_cm",
		Guard:  bpf.Node(),
		Files:  os.DirFS("/"),
		Slurm:  host.Slurm{Name: w.NodeName(), Conf: w.Getenv("SLURM_CONF")},
		Config: cfg,
		Now:    time.Now,
	}
	if c.Bool("trace") && w.trace == nil {
		w.trace = w.startTrace()
		n.Timed = w.trace.line
	}
	n.Log = func(e event.Event) {
		if e.Warning != "" {
			fmt.Fprintf(w.Stderr, "%s: warning: %s%s\n", w.name, e.Warning, hint.Tag(cmp.Or(e.ID, warningID(e.Kind))))
		} else if w.trace != nil {
			w.trace.event(e)
		}
		w.log(cfg.Log.Level, e)
	}
	return n
}

// NodeName is Slurm's name for the node; by hand, where slurmd does not say it, the
// host's.
func (w *World) NodeName() string {
	if name := w.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	short, _, _ := strings.Cut(name, ".")
	return short
}

// Version is that of the program.
func Version() string { return version }

// Root refuses anybody but root, who could do nothing anyway.
func Root() error {
	if os.Geteuid() != 0 {
		return hint.With(errors.New("not root"), "GN136 run it with sudo; slurmd runs prologs and epilogs as root")
	}
	return nil
}
