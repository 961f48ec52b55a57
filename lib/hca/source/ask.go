// Package source says what a job is entitled to, by asking what a site has
// named: the job's GPUs, its policies, its own programs, slurmctld.
//
// There are two kinds of errors. A *gres.Refusal is the job's fault: the job
// gets nothing, and the node is well. Every other error is the node's or the site's.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
)

// answer is a source's: these, none (mine, and no wants), or not mine.
type answer struct {
	mine    bool
	wants   []gres.Want
	notes   []string
	less    []string // of the wants: why they are fewer than the job could expect
	nothing bool     // not mine, since the job asked for no HCA: no fault if no other source knows it
	unless  error    // not mine, which is an error unless another source knows the job
}

func (a *answer) note(format string, v ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, v...))
}

// source knows what some jobs are entitled to. Its error is the node's fault,
// unless it is a *gres.Refusal.
type source interface {
	ask(context.Context, job.Job) (answer, error)
}

// Local is what a source may want to know of the node. It is asked for only by
// one that needs it: most jobs of a node without HCAs for them cost nothing.
type Local struct {
	// Mapping is the GRES mapping; with GPUs, it says which HCAs serve them.
	Mapping func(gpus []int) (gres.Mapping, error)
	CPUs    func() (int, error)
	Threads func() (int, error)        // of each core
	Conf    func() (slurm.Conf, error) // slurm.conf; nil: there is none

	// Less is told why a job gets fewer HCAs than it could expect, a text for each reason;
	// nil: it is not told.
	Less func(why string)
}

// Ask asks the site's sources in their order what a job is entitled to. The
// first that knows the job answers for it, "none" too; if none knows it, the job
// is entitled to nothing. The notes are for the log.
//
// A site that has policies means every job to fit one: a job that none fits,
// and no other source knows, is refused. slurmctld knows every job: of one that asked
// for no HCA it knows that, so what the job did not ask for the sources after it may give,
// and what those before it did not know is no fault. A job that gets nothing is let go only if it asked for nothing.
func Ask(ctx context.Context, j job.Job, cfg config.Config, local Local) (wants []gres.Want, notes []string, err error) {
	var unless error
	nothing := false
	for i, name := range cfg.Slurm.Source {
		s, err := open(name, cfg, local)
		if err != nil {
			return nil, notes, err
		}
		a, err := s.ask(ctx, j)
		notes = append(notes, a.notes...)
		if err != nil {
			return nil, notes, err
		}
		if a.mine {
			local.less(a.less)
			if len(a.wants) == 0 {
				err = local.nothing(ctx, j, cfg.Slurm, cfg.Slurm.Source[:i+1], &notes)
			}
			return a.wants, notes, err
		}
		if a.nothing {
			nothing, unless = true, nil
		}
		unless = cmp.Or(unless, a.unless)
	}
	if slices.Contains(cfg.Slurm.Source, config.Fixed) && !nothing {
		return nil, notes, unfit(j)
	}
	if unless != nil {
		return nil, notes, unless
	}
	return nil, notes, local.nothing(ctx, j, cfg.Slurm, cfg.Slurm.Source, &notes)
}

// unfit refuses a job that no policy fits.
func unfit(j job.Job) *gres.Refusal {
	var said []string
	for _, c := range []struct{ name, value string }{
		{"partition", j.Partition}, {"account", j.Account}, {"QOS", j.QOS},
		{"reservation", j.Reservation}, {"constraint", strings.Join(j.Features, "&")},
	} {
		if c.value != "" {
			said = append(said, c.name+" "+hint.Clip(c.value))
		}
	}
	if len(said) == 0 {
		said = []string{"of which Slurm says nothing"}
	}
	return &gres.Refusal{
		Reason: gres.NoPolicy,

		Ask: fmt.Sprintf("job %d (%s)", j.ID, strings.Join(said, ", ")),
		Why: "no [[policy]] fits it",
		Do:  "GN245 submit it to a partition that a policy is for; a last [[policy]] with count = 0 and no conditions lets all other jobs run without an HCA",
	}
}

// nothing refuses a job that gets nothing by the sources that were asked, and asks for more.
func (l Local) nothing(ctx context.Context, j job.Job, site config.Slurm, asked []string, notes *[]string) error {
	if slices.ContainsFunc(asked, func(name string) bool { return name != config.GPU && name != config.Node }) {
		return nil
	}
	note, err := l.unheard(ctx, j, site)
	if note != "" {
		*notes = append(*notes, note)
	}
	return err
}

// Unheard returns the GRES names of the site's that slurm.conf counts for a node, if no source gives what a job
// asks for. Policies and programs of the site's decide as they like.
func Unheard(site config.Slurm, conf slurm.Conf, node string) []string {
	byGPU := func(name string) bool { return name == config.GPU || name == config.Node }
	if slices.ContainsFunc(site.Source, func(name string) bool { return !byGPU(name) }) {
		return nil
	}
	return counted(site, conf, node)
}

func counted(site config.Slurm, conf slurm.Conf, node string) []string {
	return slices.DeleteFunc(slices.Clone(site.Gres), func(name string) bool { return len(conf.Types(node, name)) == 0 })
}

// unheard refuses a job that gets nothing and asks for a GRES of the site's, which nobody has asked slurmctld about: its
// steps would start on the node's network in silence. Most sites never come here: slurmctld is asked only if slurm.conf counts such a
// GRES for the node.
func (l Local) unheard(ctx context.Context, j job.Job, site config.Slurm) (note string, err error) {
	if j.Node == "" || j.Conf == "" || l.Conf == nil {
		return "", nil // by hand
	}
	conf, err := l.Conf()
	if err != nil || len(counted(site, conf, j.Node)) == 0 {
		return "", nil
	}
	a, err := scontrolSource{site, l.Threads}.ask(ctx, j)
	var refusal *gres.Refusal
	switch {
	case errors.As(err, &refusal):
		return "", refusal
	case err != nil:
		return fmt.Sprintf("nobody knows whether the job asks for %s: %s", counted(site, conf, j.Node), err), nil
	case !a.mine:
		return "", nil
	}
	return "", &gres.Refusal{
		Reason: gres.Unheard, Ask: describeWants(a.wants) + ", which Slurm gave the job",
		Why: "no source of slurm.source gives what a job asks for",
		Do:  `GN844 write source = ["scontrol", "gpu"] in the table [slurm] of gresnet.toml, or take the GRES out of slurm.conf and gres.conf`,
	}
}

// Asked returns the GRES that a job asks for which is to have HCAs: without a prolog it lacks them.
// Other sources than GPUs and slurmctld may give HCAs to any job.
func Asked(cfg config.Config) []string {
	names := slices.Clone(cfg.Slurm.Gres)
	for _, name := range cfg.Slurm.Source {
		switch name {
		case config.Scontrol:
		case config.GPU:
			names = append(names, "gpu")
		default:
			return []string{state.EveryJob}
		}
	}
	return names
}

func (l Local) less(why []string) {
	for _, w := range why {
		if l.Less != nil {
			l.Less(w)
		}
	}
}

// about names the job that a source was asked about, which the node's own errors do not.
func about(j job.Job, source string, err error) error {
	return fmt.Errorf("ask source %s about job %d: %w", source, j.ID, err)
}

func open(name string, cfg config.Config, local Local) (source, error) {
	switch name {
	case config.GPU:
		return gpuSource{partial: cfg.Slurm.Partial, mapping: local.Mapping}, nil
	case config.Node:
		return nodeSource{local}, nil
	case config.Fixed:
		return policySource{cfg.Policies}, nil
	case config.Program:
		return programSource{program: cfg.Slurm.Program, names: cfg.Slurm.Gres, timeout: cfg.Slurm.Timeout}, nil
	case config.Scontrol:
		return scontrolSource{cfg.Slurm, local.Threads}, nil
	}
	return nil, fmt.Errorf("ask source %q: unknown source", name)
}
