package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/program"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
)

// Hook is the step that runs the programs. Its entry has all that the second one needs, so that an epilog
// runs what the job began with.
type Hook struct {
	Ready   string        `json:"ready,omitempty"`
	Leave   string        `json:"leave,omitempty"`
	Timeout time.Duration `json:"timeout"`         // of each
	Fault   string        `json:"fault,omitempty"` // config.FaultJob or config.FaultNode
	Mode    rdma.Mode     `json:"mode"`
	Env     []string      `json:"env,omitempty"`
}

// A program may print so many bytes, and the log has so many lines of them.
const (
	maxHookOutput = 64 << 10
	maxHookLines  = 20
)

const hookPaths = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// LeaveError says that the program for the end of a lease failed. The lease is returned all the same.
type LeaveError struct {
	Fault string
	Err   error
}

func (e LeaveError) Error() string { return e.Err.Error() }
func (e LeaveError) Unwrap() error { return e.Err }

func (*Hook) Kind() string   { return "hook" }
func (*Hook) Object() string { return "" }
func (*Hook) HCA() node.ID   { return node.ID{} }

// Do runs the first program. If it fails, the job gets no lease.
func (h *Hook) Do(w *world.World) error {
	err := h.run(w, "ready", h.Ready, h.Timeout)
	if err == nil || h.Fault == config.FaultNode {
		return err
	}
	return &gres.Refusal{Ask: fmt.Sprintf("[hooks] of job %d", w.Job), Why: err.Error(), Do: hint.Whole(err)}
}

// Undo runs the second program, for half of the time that the run has left at most.
func (h *Hook) Undo(w *world.World) error {
	most := h.Timeout
	if end, bounded := w.Context.Deadline(); bounded {
		most = min(most, time.Until(end)/2)
	}
	if err := h.run(w, "leave", h.Leave, most); err != nil {
		return LeaveError{h.Fault, err}
	}
	return nil
}

// run runs a program in the job's network. All that it started ends with it. In exclusive mode its /sys shows
// the job's RDMA devices.
func (h *Hook) run(w *world.World, hook, path string, most time.Duration) error {
	if path == "" {
		return nil
	}
	p := program.Program{Path: path, Env: append([]string{hookPaths, "GRESNET_HOOK=" + hook}, h.Env...), Max: maxHookOutput, Alone: true}
	out, err := "", program.Check(path)
	if err == nil {
		ctx, cancel := context.WithTimeout(w.Context, most)
		defer cancel()
		err = insideHook(w, func() (err error) {
			if h.Mode == rdma.Exclusive {
				if err := sysfs.Replace(); err != nil {
					return err
				}
			}
			out, err = p.Run(ctx)
			return err
		})
	}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if line != "" && i < maxHookLines {
			w.Notice("%s: %s", path, hint.Clip(line))
		}
	}
	if err != nil {
		return hint.With(fmt.Errorf("run %s as %s: %w", path, hook, err), "GN643 see what it printed: journalctl -t gresnet-prolog -t gresnet-epilog")
	}
	return nil
}

// CheckHooks tells whether a job's prolog and epilog can run the site's programs.
func CheckHooks(site config.Hooks) error {
	for _, path := range []string{site.Ready, site.Leave} {
		if path == "" {
			continue
		}
		if err := program.Check(path); err != nil {
			return hint.With(fmt.Errorf("run %s: %w", path, err), "GN644 correct [hooks], or the program")
		}
	}
	return nil
}

// insideHook calls f on a thread in the job's network namespace that nobody else uses.
func insideHook(w *world.World, f func() error) error {
	ns, err := w.JobNS()
	if err != nil {
		return err
	}
	return ns.Do(f)
}
