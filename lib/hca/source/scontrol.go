package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/base/trust"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/program"
	"gresnet/lib/slurm"
)

// places returns where scontrol may be. slurmd gives its prolog no PATH.
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

// scontrolSource answers with what slurmctld says that a job has on this node. A job that
// has no GRES that means an HCA asked for none, and is left to the other sources.
type scontrolSource struct {
	site    config.Slurm
	threads func() (int, error) // of each core of the node
}

func (s scontrolSource) ask(ctx context.Context, j job.Job) (answer, error) {
	if j.Node == "" {
		return answer{}, hint.With(
			fmt.Errorf("ask scontrol about job %d: the node's name is not known", j.ID),
			"GN248 slurmd says it in SLURMD_NODENAME; by hand, set it",
		)
	}
	program, err := FindScontrol(s.site.Scontrol)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.site.Timeout)
	defer cancel()
	asking := &scontrol{program: program, conf: j.Conf}
	start := time.Now()
	has, err := asking.detail(ctx, j)
	var wants []gres.Want
	if err == nil {
		wants, err = gres.ParseDetail(has.gres, s.site.Gres)
	}
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		return answer{}, explain(err, asking, j, took)
	}
	a := answer{mine: len(wants) > 0, nothing: len(wants) == 0, wants: wants}
	whom := ""
	if a.mine { // for others slurm.conf is not read
		whom = asking.whom()
	}
	a.note("scontrol took %s%s%s and says GRES=%s", took, asking.again(), whom, hint.Clip(has.gres))
	if err := has.place(a.wants, s.site.Index == config.IndexNear, s.threads); err != nil {
		a.note("HCAs are chosen without regard to the job's CPUs: %s", err)
	}
	return a, nil
}

// allocation is what scontrol says that a job has on a node.
type allocation struct {
	gres  string // in the form of the older text
	cores string
	cpus  string // all threads of these cores, in the older text
}

// place says near which cores the counted HCAs must be, or all of them.
func (a allocation) place(wants []gres.Want, all bool, threads func() (int, error)) error {
	counts := func(w gres.Want) bool { return all || len(w.Indices) == 0 }
	if !slices.ContainsFunc(wants, counts) {
		return nil
	}
	cores, err := a.coreList(threads)
	for i := range wants {
		if counts(wants[i]) {
			wants[i].Cores = cores
		}
	}
	return err
}

// coreList returns the job's cores as Slurm numbers them: by the text, core n has the CPUs
// from n times its threads on (Slurm src/scontrol/info_job.c:_sprint_job_info).
func (a allocation) coreList(threads func() (int, error)) ([]int, error) {
	if a.cores != "" {
		return node.ParseIndices(a.cores)
	}
	if a.cpus == "" {
		return nil, nil
	}
	cores, err := node.ParseIndices(a.cpus)
	if err != nil {
		return nil, err
	}
	n, err := threads()
	if err != nil {
		return nil, err
	}
	for i := range cores {
		cores[i] /= n
	}
	return slices.Compact(cores), nil
}

// explain says who was asked what, and whose fault it is. What slurmctld answers users can change at any moment, and
// keep it from answering: by scontrol update, requeue and scancel, by many requests to it or to munge. So an
// answer, or none, is never the node's fault: any user could drain nodes. The node's is a scontrol that
// cannot be run, or says that it is not set up. scontrol is silent about a slurmctld that does not answer until
// MessageTimeout is over, which may be longer than it is waited for. To have the other sources
// answer instead would be to give what Slurm may have given another job.
func explain(err error, s *scontrol, j job.Job, took time.Duration) error {
	var refusal *gres.Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case isSites(err):
		said := fmt.Errorf("ask %s about job %d: after %s%s%s: %w", s.program, j.ID, took, s.again(), s.whom(), err)
		return hint.With(said, fmt.Sprintf("GN250 run %s show job -d %d by hand on this node, while the job runs", s.program, j.ID))
	}
	ask := fmt.Sprintf("what source scontrol says of job %d", j.ID)
	if passing(err) || errors.Is(err, program.ErrLate) {
		return &gres.Refusal{
			Reason: gres.NoAnswer, Ask: ask,
			Why: fmt.Sprintf("slurmctld does not answer: after %s%s%s: %s", took, s.again(), s.whom(), err),
			Do:  "GN249 start the job again when slurmctld answers (scontrol ping); slurm.timeout is how long it is asked",
		}
	}
	return &gres.Refusal{
		Reason: gres.NoAnswer, Ask: ask, Why: fmt.Sprintf("after %s%s%s: %s", took, s.again(), s.whom(), err),
		Do: fmt.Sprintf("GN842 if jobs on other nodes are refused for this, too, run %s show job -d %d by hand, while the job runs", s.program, j.ID),
	}
}

// isSites tells failures of scontrol that no user can cause: it cannot be run, or is not set up.
func isSites(err error) bool {
	if program.CannotRun(err) {
		return true
	}
	return saidAny(err, "slurm.conf", "plugin", "shared libraries", "symbol lookup", "unrecognized option", "incompatible version")
}

// FindScontrol returns the program that is asked: the one that the site names, or else one in
// the usual places.
func FindScontrol(configured string) (string, error) { return findScontrol(configured, places()) }

func findScontrol(configured string, places []string) (string, error) {
	if configured != "" {
		places = []string{configured}
	}
	for _, path := range places {
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return trusted(path)
		}
	}
	return "", hint.With(
		fmt.Errorf("find scontrol: %w as a program: %s", fs.ErrNotExist, strings.Join(places, ", ")),
		"GN251 set slurm.scontrol in the configuration to its path, or leave scontrol out of slurm.source",
	)
}

// trusted returns a program's path without links, if root runs what root alone can have written.
func trusted(program string) (string, error) {
	if os.Geteuid() != 0 {
		return program, nil // one's own rights are at stake
	}
	path, err := trust.Resolve(program)
	if err != nil {
		return "", hint.With(fmt.Errorf("run %s: %w", program, err), "GN252 root must own it and all folders and links on its path, and nobody else may write to them: ls -ld, chown root, chmod go-w")
	}
	return path, nil
}

// scontrol is the program, and the slurm.conf that it is to use.
type scontrol struct {
	program, conf string
	retries       int // how often it was asked once more
}

// detail asks for what a job has on its node.
//
// Slurm 25.11 has a question that is about nothing else, with an answer that
// names the node and that no user's words are in. It came with SLUIDs, so a job
// that has one tells that it is there. Before, the text that people read has
// it; its JSON (23.02) is not used, because there gres_detail does not name its
// hosts. An array's or a het job's first job takes a second question.
func (s *scontrol) detail(ctx context.Context, j job.Job) (allocation, error) {
	id := strconv.FormatUint(uint64(j.ID), 10)
	if j.Run.SLUID != "" {
		has, err := s.resources(ctx, id, j.Node)
		if !errors.Is(err, errUnknownForm) {
			return has, err
		}
	}
	text, err := s.askShow(ctx, id)
	if err != nil {
		return allocation{}, err
	}
	shown, err := parseShow(text, j.ID)
	var several errSeveral
	if errors.As(err, &several) {
		shown, err = s.alone(ctx, several.ask, j.ID)
	}
	if err != nil {
		return allocation{}, err
	}
	return shown.detail(j.Node)
}

// alone asks for one job of an array or a het job.
func (s *scontrol) alone(ctx context.Context, name string, id uint32) (show, error) {
	text, err := s.askShow(ctx, name)
	if err != nil {
		return show{}, err
	}
	shown, err := parseAlone(text)
	if err != nil {
		return show{}, err
	}
	return shown, shown.about(id)
}

// maxOutput bounds what is read. All tasks of an array are shown together, at about
// one and a half KiB each; more than that are a user's long texts.
const maxOutput = 16 << 20

// askShow asks for the text that people read. How long that is users decide.
func (s *scontrol) askShow(ctx context.Context, name string) (string, error) {
	text, err := s.ask(ctx, "show", "job", "-d", name)
	if errors.Is(err, program.ErrLong) {
		return "", &gres.Refusal{Ask: "what scontrol says of job " + name, Why: err.Error() + ": its array is too large, or its texts are too long"}
	}
	return text, err
}

// call calls scontrol, for the cluster of a slurm.conf if that is not empty.
func call(scontrol, conf string, args ...string) program.Program {
	c := program.Program{Path: scontrol, Args: args, Max: maxOutput}
	if conf != "" {
		c.Env = []string{"SLURM_CONF=" + conf}
	}
	return c
}

// ask asks a slurmctld that is busy again until the time is over.
func (s *scontrol) ask(ctx context.Context, args ...string) (string, error) {
	c := call(s.program, s.conf, args...)
	var text string
	var said error
	answered, err := (&poll.Budget{Context: ctx}).Until(poll.Slurmctld, func() (bool, error) {
		if said != nil {
			if ctx.Err() != nil {
				return false, said
			}
			s.retries++
		}
		answer, err := c.Run(ctx)
		if said != nil && errors.Is(err, program.ErrLate) {
			return false, said // it was cut off: what it said before says more
		}
		text, said = answer, err
		return err == nil || !passing(err), nil
	})
	if err != nil || !answered {
		return "", said
	}
	return text, said
}

// passing tells failures that may be over in a moment (Slurm
// src/common/slurm_errno.c): slurmctld is busy, restarts, or another takes over; munged is busy.
func passing(err error) bool {
	return saidAny(err, "contact slurm controller", "timed out", "connection", "zero bytes", "communication", "temporarily", "try again", "munge", "authentication")
}

// saidAny tells whether scontrol failed and said one of these words.
func saidAny(err error, signs ...string) bool {
	var exit program.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	said := strings.ToLower(exit.Said)
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(said, sign) })
}

// again says how often scontrol was asked once more, for people.
func (s *scontrol) again() string {
	switch s.retries {
	case 0:
		return ""
	case 1:
		return " with another try"
	}
	return fmt.Sprintf(" with %d more tries", s.retries)
}

// whom says who answers, as far as slurm.conf tells.
func (s *scontrol) whom() string {
	conf, err := slurm.Read(os.DirFS("/"), s.conf)
	if err != nil || len(conf.Controllers()) == 0 {
		return "" // the answer is no worse for it
	}
	return " asking " + strings.Join(conf.Controllers(), ", ")
}
