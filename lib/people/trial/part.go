package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/lease"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
)

// The parts that the program plays for a trial.
const (
	partTake    = "prolog"
	partRestore = "epilog"
	partLook    = "task"
	partSend    = "sender" // a task, too
)

// played is what a part says when it ends.
type played struct {
	Error    string
	Warnings []string
	Lines    int // how many steps and waits the prolog or epilog told of
	Sight    sight
	Gbits    float64

	killed bool
}

// Play plays a part and prints what came of it. A prolog or an epilog kills itself at a line, unless that is 0.
func Play(ctx context.Context, n *host.Host, part string, line int, args []string, w io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var p played
	p.watch(n, line)
	var err error
	switch part {
	case partTake:
		n.Undo = n.Config.Deadline.Prolog / 2
		ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Prolog-n.Undo)
		defer cancel()
		err = take(ctx, n, args)
	case partRestore:
		err = lease.On(n).Restore(ctx, lease.TrialJob, nil)
	case partLook:
		p.Sight, err = seeInLease(args[0], args[1])
	case partSend:
		p.Gbits, err = sendInLease(ctx, args[0], args[1], args[2], args[3])
	default:
		err = fmt.Errorf("%q is no part", part)
	}
	if err != nil {
		p.Error = told(err)
	}
	return json.NewEncoder(w).Encode(p)
}

// told returns an error on one line, with its id and its hint.
func told(err error) string {
	text := err.Error() + hint.Tag(hint.ID(err))
	if do := hint.Of(err); do != "" {
		text += "; hint: " + do
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// watch counts the lines that a run tells of, and takes down what a person must know.
func (p *played) watch(n *host.Host, kill int) {
	line := func() {
		if p.Lines++; p.Lines == kill {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nobody can refuse it
		}
	}
	log := n.Log
	n.Timed = func(string, time.Duration) { line() }
	n.Log = func(e event.Event) {
		switch {
		case e.Warning != "":
			p.Warnings = append(p.Warnings, e.Warning)
		case e.Kind == event.Differs:
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s: %s", e.Deed, e.Err))
		}
		log(e)
		line()
	}
}

// take takes the HCAs of some identities.
func take(ctx context.Context, n *host.Host, ids []string) error {
	m, err := n.Mapping()
	if err != nil {
		return err
	}
	var wants []gres.Want
	for _, e := range m {
		for _, id := range ids {
			if e.Drift == nil && e.HCA.ID.String() == id {
				wants = append(wants, gres.Want{Gres: e.Gres, Type: e.Type, Indices: []int{e.Index}, Source: config.Fixed})
			}
		}
	}
	if len(wants) != len(ids) {
		return errors.New("the node has not all of the HCAs any more")
	}
	j := job.Job{ID: lease.TrialJob, UID: jobUser, GID: jobUser, Node: n.Slurm.Name, Nodes: n.Slurm.Name, Conf: n.Slurm.Conf}
	return lease.On(n).TakeTrial(ctx, j, wants)
}

// play has a part played by a process of its own. An interrupt of the terminal's does not reach it; the end
// of the context does.
func (t *Trial) play(ctx context.Context, part string, line int, args ...string) (played, error) {
	return t.start(ctx, part, line, args, func(cmd *exec.Cmd) error { return cmd.Start() })
}

func (t *Trial) start(ctx context.Context, part string, line int, args []string, start func(*exec.Cmd) error) (p played, err error) {
	all := append(append([]string{}, t.Self[1:]...), "--as", part, "--line", strconv.Itoa(line), "--")
	cmd := exec.CommandContext(ctx, t.Self[0], append(all, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if t.conf != "" {
		cmd.Env = append(os.Environ(), "SLURM_CONF="+t.conf)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	isTask := part == partLook || part == partSend
	if isTask {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	}
	if err := start(cmd); err != nil {
		return p, fmt.Errorf("start the %s: %w", part, err)
	}
	err = cmd.Wait()
	if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); is && line > 0 && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return played{killed: true}, nil
	}
	if read := json.Unmarshal(out.Bytes(), &p); read != nil {
		return p, fmt.Errorf("play the %s: %w: %s", part, hint.Join(err, read), problems.String())
	}
	if !isTask {
		t.lines[part] = max(t.lines[part], p.Lines) // one that goes on with a killed one has fewer
	}
	return p, nil
}

// lookInside looks at HCAs as a task of the job does, and as a process of its user's that is in no job.
func (t *Trial) lookInside(group []*hca) {
	dir := t.Host.State.Lease(lease.TrialJob)
	guarded := t.isExclusive()
	if t.cgroup != "" {
		id, err := inode(t.cgroup)
		is := false
		if err == nil {
			is, err = t.Host.Guard.Allow(lease.TrialJob, id)
		}
		if err != nil {
			t.blame(group, err.Error())
		}
		guarded = guarded || is
	}
	in, err := t.lookFrom(dir.Netns(), dir.Devices(), t.cgroup)
	if err != nil {
		t.blame(group, "inside: "+err.Error())
		return
	}
	for _, h := range group {
		h.judge(in, group, t.isExclusive())
	}
	if !guarded {
		return // nothing tells jobs of one user apart: the site wants it so, or the kernel cannot
	}
	out, err := t.lookFrom("", dir.Devices(), "")
	if err != nil {
		t.blame(group, "outside: "+err.Error())
	}
	for name, c := range out.Nodes {
		if c.Refused == "" {
			t.blame(group, fmt.Sprintf("outside: another job of the same user can open %s of %s", name, c.Of))
		}
	}
}

// lookFrom looks from a network namespace.
func (t *Trial) lookFrom(namespace, devices, cgroup string) (sight, error) {
	p, err := t.playIn(context.Background(), namespace, partLook, devices, cgroup)
	return p.Sight, err
}

// playIn has a task play in a network namespace; empty, or none: the node's.
func (t *Trial) playIn(ctx context.Context, namespace, part string, args ...string) (played, error) {
	start := func(cmd *exec.Cmd) error { return cmd.Start() }
	if namespace != "" {
		ns, err := netns.Open(namespace)
		switch {
		case err == nil:
			defer ns.Close()
			start = func(cmd *exec.Cmd) error { return ns.Do(cmd.Start) }
		case !errors.Is(err, fs.ErrNotExist): // a job that stays in the node's network has none
			return played{}, err
		}
	}
	p, err := t.start(ctx, part, 0, args, start)
	if err == nil && p.Error != "" {
		err = errors.New(p.Error)
	}
	return p, err
}

func inode(path string) (uint64, error) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	return st.Ino, err
}
