package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netns"
)

// The parts that the program plays for a trial: tasks of the job.
const (
	partLook = "task"
	partSend = "sender"
)

// played is what a part says when it ends.
type played struct {
	Error string
	Sight sight
	Gbits float64
}

// Play plays a part and prints what came of it.
func Play(ctx context.Context, part string, args []string, w io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var p played
	var err error
	switch part {
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

// lookInside looks at HCAs as a task of the job does, and as a process of its user's that is in no job.
func (t *Trial) lookInside(group []*hca) {
	dir := t.lease()
	guarded := t.isExclusive()
	if t.cgroup != "" {
		id, err := inode(t.cgroup)
		is := false
		if err == nil {
			is, err = t.Host.Guard.Allow(theJob, id)
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

// playIn has a task play in a network namespace, by a process in a mount namespace of its own. Without a
// network namespace the task is in the node's.
func (t *Trial) playIn(ctx context.Context, namespace, part string, args ...string) (p played, err error) {
	cmd := exec.CommandContext(ctx, t.Self, append([]string{"try", "--as", part, "--"}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	start := cmd.Start
	if namespace != "" {
		ns, err := netns.Open(namespace)
		switch {
		case err == nil:
			defer ns.Close()
			start = func() error { return ns.Do(cmd.Start) }
		case !errors.Is(err, fs.ErrNotExist): // a job that stays in the node's network has none
			return p, err
		}
	}
	if err := start(); err != nil {
		return p, fmt.Errorf("start the %s: %w", part, err)
	}
	err = cmd.Wait()
	if read := json.Unmarshal(out.Bytes(), &p); read != nil {
		return p, fmt.Errorf("play the %s: %w: %s", part, hint.Join(err, read), problems.String())
	}
	if p.Error != "" {
		return p, errors.New(p.Error)
	}
	return p, nil
}

func inode(path string) (uint64, error) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	return st.Ino, err
}
