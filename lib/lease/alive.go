package lease

import (
	"errors"
	"fmt"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/lease/event"
)

// errAlive means that a job is not gone, or may not be.
var errAlive = errors.New("the job is not gone")

// errLives means that a job runs for sure: it has a step. Slurm may not know the job of a process
// that is left in a namespace.
var errLives = errors.New("the job runs")

// living is errAlive and errLives.
type living struct{ error }

func (l living) Unwrap() error { return l.error }

func (l living) Is(target error) bool { return target == errLives }

// alive returns errAlive with the reason unless the lease's job is gone for sure.
func alive(l *Lease, s Cleanup) error {
	d, err := evidenceOf(l, s)
	if err != nil {
		return err
	}
	seen, err := d.look()
	if err != nil {
		return err
	}
	return d.judge(seen, s)
}

// evidence is what a lease itself says about whether its job is gone.
type evidence struct {
	lease     bool // there is one
	job       uint32
	namespace string
	uid       uint32        // the job's user
	since     time.Duration // when the lease was made: it tells one run of a job from the next
	marked    bool          // it had an extern step
	expected  bool          // its extern step may still come
	age       time.Duration
}

// evidenceOf reads the evidence that a lease has, or returns errAlive if the cleanup must spare the job without a
// look at processes. It reads them before anybody looks at those: the process that made the mark,
// or brought another one into the namespace, was there before, and the look sees it if it lives.
func evidenceOf(l *Lease, s Cleanup) (evidence, error) {
	dir := l.World.Dir
	d := evidence{lease: true, job: l.World.Job, since: l.Journal.Header.Since, marked: dir.Marked()}
	d.age = proc.SinceBoot() - d.since
	// Without a mark none can come if the lease does not count, or there is no slurmd yet.
	d.expected = !d.marked && dir.Counts() && !s.Boot
	if d.expected && d.age < poll.Grace && s.hasty {
		return d, d.starting()
	}
	var err error
	d.uid = proc.NoUser
	t := l.Host.Readable(l.World.Job)
	if claims := t.Of(l.World.Job, l.World.Run); len(claims) > 0 {
		d.uid = claims[0].UID
	}
	d.namespace, err = l.World.Namespace()
	return d, err
}

func (d evidence) starting() error {
	err := fmt.Errorf("%w: the lease of job %d is %s old, it may be about to start", errAlive, d.job, d.age.Round(time.Second))
	return hint.With(err, fmt.Sprintf("GN204 if squeue knows no job %d: SLURM_JOB_ID=%d gresnet-epilog", d.job, d.job))
}

// sight is what a look at the node's processes found of a job.
type sight struct{ inside, steps []proc.Process }

// look looks for the job's processes.
func (d evidence) look() (seen sight, err error) {
	if d.namespace != "" {
		if seen.inside, err = proc.Inside(d.namespace, d.uid); err != nil {
			return seen, err
		}
	}
	seen.steps, err = proc.Steps(d.job)
	return seen, err
}

// judge returns errAlive with the reason unless the job is gone for sure.
func (d evidence) judge(seen sight, s Cleanup) error {
	switch {
	case len(seen.steps) > 0:
		return isStep(seen.steps[0])
	case len(seen.inside) > 0:
		return fmt.Errorf("%w: no step of it runs, but %s is in its network namespace", errAlive, list(seen.inside))
	case !d.expected:
		return nil // it had an extern step once, and has none any more; or none can come
	case d.age < poll.Grace:
		return d.starting()
	case len(s.Jobs) == 0:
		return fmt.Errorf("%w: it never had an extern step, without which (PrologFlags=Contain) nothing tells that it ended; name it to clean up after it", errAlive)
	}
	return nil
}

// isStep is the error of a job that has a step.
func isStep(p proc.Process) error { return living{fmt.Errorf("%w: %s is its step", errAlive, p)} }

func list(processes []proc.Process) string {
	var names []string
	for _, p := range processes {
		names = append(names, p.String())
	}
	return event.FirstOf(names)
}
