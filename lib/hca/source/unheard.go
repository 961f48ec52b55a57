package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"gresnet/lib/hca/gres"
	"gresnet/lib/slurm"
	"gresnet/lib/words/config"
	"gresnet/lib/words/job"
)

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
	if j.Node == "" || j.Conf == "" {
		return "", nil // by hand
	}
	conf, err := slurm.Read(os.DirFS("/"), j.Conf)
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
