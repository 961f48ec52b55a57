package gres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gresnet/lib/config"
	"gresnet/lib/job"
)

// places is where scontrol may be. slurmd gives its prolog no PATH.
func places() []string {
	return []string{
		"/usr/bin/scontrol",
		"/usr/local/bin/scontrol",
		"/opt/slurm/bin/scontrol",
		"/usr/local/slurm/bin/scontrol",
		"/opt/slurm/current/bin/scontrol",
		"/cm/shared/apps/slurm/current/bin/scontrol",
	}
}

// byScontrol answers with what slurmctld says that a job has on this node.
func byScontrol(ctx context.Context, j job.Job, cfg config.Slurm) (answer, error) {
	if j.Node == "" {
		return answer{}, fault{
			fmt.Errorf("ask scontrol about job %d: the node's name is not known", j.ID),
			"slurmd says it in SLURMD_NODENAME; by hand, set it",
		}
	}
	program, err := findScontrol(cfg.Scontrol, places())
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	start := time.Now()
	detail, err := scontrol{program: program, conf: j.Conf}.detail(ctx, j)
	var wants []Want
	if err == nil {
		wants, err = parseDetail(detail, cfg.Gres)
	}
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		return answer{}, explain(err, program, j, took)
	}
	a := answer{mine: true, wants: wants}
	a.note("scontrol took %s and says GRES=%s", took, clip(detail))
	return a, nil
}

// explain says who was asked what. The job's fault stays the job's.
func explain(err error, program string, j job.Job, took time.Duration) error {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	said := fmt.Errorf("ask %s about job %d: after %s: %w", program, j.ID, took, err)
	var known fault
	if errors.As(err, &known) {
		return said
	}
	return fault{said, fmt.Sprintf("run %s show job -d %d by hand on this node, while the job runs", program, j.ID)}
}

func findScontrol(configured string, places []string) (string, error) {
	if configured != "" {
		places = []string{configured}
	}
	for _, path := range places {
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fault{
		fmt.Errorf("find scontrol: %w as a program: %s", fs.ErrNotExist, strings.Join(places, ", ")),
		"set slurm.scontrol in the configuration to its path, or leave scontrol out of slurm.source",
	}
}

// scontrol is the program, and the slurm.conf that it is to use.
type scontrol struct {
	program, conf string
}

// detail asks for a job's GRES detail on its node. An array's or a het job's
// first job takes a second question.
func (s scontrol) detail(ctx context.Context, j job.Job) (string, error) {
	text, err := s.show(ctx, strconv.FormatUint(uint64(j.ID), 10))
	if err != nil {
		return "", err
	}
	shown, err := parseShow(text, j.ID)
	var several errSeveral
	if errors.As(err, &several) {
		shown, err = s.alone(ctx, several.ask, j.ID)
	}
	if err != nil {
		return "", err
	}
	return shown.detail(j.Node)
}

// alone asks for one job of an array or a het job.
func (s scontrol) alone(ctx context.Context, name string, id uint32) (show, error) {
	text, err := s.show(ctx, name)
	if err != nil {
		return show{}, err
	}
	shown, err := parseAlone(text)
	if err != nil {
		return show{}, err
	}
	return shown, shown.about(id)
}

// Bounds of what is read. All running tasks of an array are shown together,
// at about one and a half KiB each.
const (
	maxOutput = 4 << 20
	maxErrors = 64 << 10
)

// show runs scontrol. It does not outlive the context or this process.
func (s scontrol) show(ctx context.Context, name string) (string, error) {
	out, problems := &bounded{max: maxOutput}, &bounded{max: maxErrors, drop: true}
	cmd := exec.CommandContext(ctx, s.program, "show", "job", "-d", name)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}
	if s.conf != "" {
		cmd.Env = append(cmd.Env, "SLURM_CONF="+s.conf)
	}
	cmd.Stdout, cmd.Stderr = out, problems
	// A group of its own, so that what it started is killed with it. slurmd's
	// kill of the prolog's group then misses it; hence Pdeathsig, which is sent
	// when the thread that forked ends, and so needs it to be this one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 200 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// It ended, and what it started still holds the pipe.
		_ = cmd.Cancel()
	}
	return string(out.text), judge(ctx, err, out, problems)
}

// judge says what went wrong, if anything.
func judge(ctx context.Context, err error, out, problems *bounded) error {
	said := ""
	if line := problems.firstLine(); line != "" {
		said = fmt.Sprintf(": it says %q", line)
	}
	switch {
	case out.over:
		return fmt.Errorf("it printed more than %d KiB", maxOutput>>10)
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault{
			fmt.Errorf("no answer in time%s", said),
			"see whether slurmctld answers (scontrol ping); slurm.timeout is how long to wait",
		}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w%s", err, said)
}

// bounded keeps what is written to it up to a size. What is more is dropped, or
// an error, which closes the pipe to the writer.
type bounded struct {
	text []byte
	max  int
	drop bool
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.max-len(b.text))
	b.text = append(b.text, p[:room]...)
	if room < len(p) {
		b.over = true
		if !b.drop {
			return room, errors.New("too much output")
		}
	}
	return len(p), nil
}

func (b *bounded) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b.text)), "\n")
	return clip(line)
}
