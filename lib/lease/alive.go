package lease

import (
	"errors"
	"fmt"
	"os"
	"time"

	"gresnet/lib/clock"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/proc"
)

// grace is how old a lease must be at least to be swept without a sign that
// its job ever started: between the prolog's end and the job's first process
// a job can't be told from one that is gone.
const grace = 10 * time.Minute

// errAlive means that a job is not gone, or not for sure.
var errAlive = errors.New("the job is not gone")

// errLives means that it runs for sure: it has a step. A process that is left in its
// namespace is none of a job that Slurm knows of.
var errLives = errors.New("the job runs")

// living is an errAlive that is an errLives, too.
type living struct{ error }

func (l living) Unwrap() error { return l.error }

func (l living) Is(target error) bool { return target == errLives }

// alive is errAlive with the reason unless the lease's job is gone for sure.
func (l *open) alive(s Sweep) error {
	d, err := l.signs(s)
	if err != nil {
		return err
	}
	seen, err := d.look()
	if err != nil {
		return err
	}
	return d.judge(seen, s)
}

// signs is what a lease itself tells of whether its job is gone.
type signs struct {
	lease     bool // there is one
	job       uint32
	namespace string
	since     time.Duration // when the lease was made: it tells one run of a job from the next
	marked    bool          // it had an extern step
	expected  bool          // its extern step may come yet
	age       time.Duration
}

// signs is errAlive if the job is to be spared without a look at processes. What it tells is
// looked at before those: the process that made a mark, or brought another one into the
// namespace, was there before, and is seen then if it lives.
func (l *open) signs(s Sweep) (signs, error) {
	_, mark := os.Lstat(markIn(l.world.Dir))
	d := signs{lease: true, job: l.world.Job, since: l.journal.Header.Since, marked: mark == nil}
	d.age = clock.SinceBoot() - d.since
	// Without a mark none can come if the lease does not count, or there is no slurmd yet.
	d.expected = mark != nil && l.complete() && !s.Boot
	if d.expected && d.age < grace && s.hasty {
		return d, d.starting()
	}
	var err error
	d.namespace, err = l.world.Namespace()
	return d, err
}

func (d signs) starting() error {
	err := fmt.Errorf("%w: the lease of job %d is %s old, it may be about to start", errAlive, d.job, d.age.Round(time.Second))
	return hint.With(err, fmt.Sprintf("if squeue knows no job %d: SLURM_JOB_ID=%d gresnet-epilog", d.job, d.job))
}

// sight is what a look at the node's processes tells of a job.
type sight struct{ inside, steps []proc.Process }

// look looks for the job's processes.
func (d signs) look() (seen sight, err error) {
	if d.namespace != "" {
		if seen.inside, err = proc.Inside(d.namespace); err != nil {
			return seen, err
		}
	}
	seen.steps, err = proc.Steps(d.job)
	return seen, err
}

// judge is errAlive with the reason unless the job is gone for sure.
func (d signs) judge(seen sight, s Sweep) error {
	switch {
	case len(seen.steps) > 0:
		return living{fmt.Errorf("%w: %s is its step", errAlive, seen.steps[0])}
	case len(seen.inside) > 0:
		return fmt.Errorf("%w: no step of it runs, but %s is in its network namespace", errAlive, list(seen.inside))
	case !d.expected:
		return nil // it had an extern step once, and has none any more; or none can come
	case d.age < grace:
		return d.starting()
	case len(s.Jobs) == 0:
		return fmt.Errorf("%w: it never had an extern step, without which (PrologFlags=Contain) nothing tells that it ended; name it to sweep it", errAlive)
	}
	return nil
}

func list(processes []proc.Process) string {
	var names []string
	for _, p := range processes {
		names = append(names, p.String())
	}
	return host.FirstOf(names)
}
