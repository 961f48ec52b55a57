// Package cli is what gresnet-prolog and gresnet-epilog have in common: the outside world,
// which is handed in, the flags, the exit codes, and what is said to whom.
//
// stdout is for what was asked for. stderr is for what a person must act on: a line that says
// what happened, then one that says what to do; slurmd puts both into its log. All else goes to
// the systemd journal, if the node has one and the configuration wants it there: one line for
// each event, with fields to search for.
//
// github.com/urfave/cli is imported as urfave.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/bpf"
	"gresnet/lib/config"
	"gresnet/lib/event"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/lease"
	"gresnet/lib/plain"
	_ "gresnet/lib/processor"
	"gresnet/lib/state"
	"gresnet/lib/sysfs"
)

// Exit codes, which slurmd and operators rely on.
const (
	Done    = 0
	Undone  = 1 // it failed, and the node is as it was
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
	trace    *trace        // nil: nobody wants to see it
}

// Outside is the world of this process.
func Outside() *World {
	w := &World{Args: os.Args, Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr, began: time.Now(), startCPU: cpuTime()}
	// Not journal.Enabled, which has package net make two sockets and an epoll.
	if _, err := os.Stat(journaldSocket); err == nil {
		if d, err := openDatagram(journaldSocket); err == nil {
			w.Send = (&sender{send: journald{d}.send}).Send
		}
	}
	return w
}

// Flags are the program's own flags as somebody gave them: *urfave.Context, or none.
type Flags interface {
	String(name string) string
	Bool(name string) bool
	IsSet(name string) bool
}

// Where things are, unless a flag says otherwise.
const (
	configFile = "/etc/gresnet/gresnet.toml"
	stateDir   = "/run/gresnet"
)

// none are the flags of a call without arguments.
type none struct{}

func (none) String(name string) string {
	return map[string]string{"config": configFile, "state": stateDir}[name]
}
func (none) Bool(string) bool  { return false }
func (none) IsSet(string) bool { return false }

// Run runs a program and returns its exit code. Without a command it does call. slurmd gives no
// arguments at all: then nobody describes the application, which takes as long as a third of a call
// for a job without HCAs.
func (w *World) Run(name string, call func(Flags) error, describe func() *urfave.App) int {
	// A short-lived program that holds a few megabytes is faster without collecting any.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(12 << 20)
	w.name = name
	w.Stdout, w.Stderr = plain.Writer(w.Stdout), plain.Writer(w.Stderr)
	err := w.do(call, describe)
	if err == nil {
		return Done
	}
	w.problem(err)
	return exitCode(err)
}

// do does what the arguments say.
func (w *World) do(call func(Flags) error, describe func() *urfave.App) error {
	if len(w.Args) < 2 {
		w.changes = true
		return call(none{})
	}
	app := describe()
	app.Name, app.Version = w.name, version
	app.Action = func(c *urfave.Context) error {
		if err := Alone(c); err != nil {
			return err
		}
		w.changes = true
		return call(c)
	}
	app.Writer, app.ErrWriter = w.Stdout, w.Stderr
	app.HideHelpCommand = true
	app.ExitErrHandler = func(*urfave.Context, error) {}
	w.addWords(app)
	app.OnUsageError = usageError(app.Name, func() []urfave.Flag { return app.Flags })
	for _, command := range app.Commands {
		command.OnUsageError = usageError(app.Name+" "+command.Name, func() []urfave.Flag { return slices.Concat(command.Flags, app.Flags) })
		command.HideHelpCommand = true
		action := command.Action
		command.Action = func(c *urfave.Context) error {
			w.changes = slices.Contains(changing, command.Name)
			return action(c)
		}
	}
	app.Flags = append(app.Flags,
		&urfave.StringFlag{Name: "config", Usage: "configuration `FILE`", Value: configFile},
		&urfave.StringFlag{Name: "state", Usage: "keep leases and the node lock in `DIR`", Value: stateDir},
		&urfave.BoolFlag{Name: "trace", Usage: "print each step and how long it took to stderr", DisableDefaultText: true},
		urfave.HelpFlag, // which the library leaves out where there is a command help
		urfave.VersionFlag,
	)
	args, err := arrange(app, w.Args)
	if err != nil {
		return err
	}
	return app.Run(args)
}

// changing are the commands that change the node. The journal has their problems, and slurmd's: what
// somebody has mistyped, or only looked at, would hide these.
var changing = []string{"sweep", "boot", "release", "close", "setup"}

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
		w.logProblem(line, id, exitCode(err))
	}
}

// hint is an error's own hint, or what always can be done. It begins with the id of the message.
func (w *World) hint(err error) string {
	switch text := hint.Whole(err); {
	case (errors.Is(err, lease.ErrDamaged) || errors.Is(err, lease.ErrLost)) && text != "":
		return text
	case errors.Is(err, lease.ErrRemains) && w.Getenv("SLURM_JOB_ID") == "":
		return "GN002 HCAs that are not home are kept from later jobs (gresnet-prolog status); mend the cause, then run this again"
	case errors.Is(err, lease.ErrRemains):
		return "GN003 HCAs that are not home are kept from later jobs; mend the cause, then run: SLURM_JOB_ID=" + w.Getenv("SLURM_JOB_ID") + " gresnet-epilog"
	case text != "":
		return text
	}
	return "GN001 the node is as it was; mend the cause, then return the node to service"
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
		n.Timed = w.trace.timed
	}
	n.Log = func(e event.Event) {
		if e.Warning != "" {
			fmt.Fprintf(w.Stderr, "%s: warning: %s%s\n", w.name, e.Warning, hint.Tag(warningID(e.Kind)))
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

// Alone refuses arguments that a command does not know.
func Alone(c *urfave.Context) error {
	switch {
	case !c.Args().Present():
		return nil
	case c.App.Command(c.Command.Name) == nil: // it is the program's own
		return unknown(c, c.Args().First())
	}
	name := c.App.Name + " " + c.Command.Name
	return hint.With(fmt.Errorf("%s takes no arguments: %q", name, c.Args().First()), "GN134 see "+name+" --help")
}

// OneOf refuses flags that exclude each other.
func OneOf(c *urfave.Context, names ...string) error {
	var given []string
	for _, name := range names {
		if c.IsSet(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) < 2 {
		return nil
	}
	return hint.With(fmt.Errorf("%s exclude each other", strings.Join(given, " and ")), "GN135 give one of them")
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
