package source

import (
	"context"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
)

// policySource answers with what the first policy that fits a job gives.
type policySource struct{ policies []config.Policy }

func (s policySource) ask(_ context.Context, j job.Job) (answer, error) {
	var a answer
	for i, p := range s.policies {
		if p.Silent {
			continue
		}
		if len(p.QOS) > 0 && j.QOS == "" {
			a.note("policy %d goes by QOS, which Slurm does not say of the job", i+1)
		}
		if !fits(p, j) {
			continue
		}
		a.mine = true
		if len(p.Indices) > 0 || p.Count > 0 {
			a.wants = []gres.Want{{Gres: p.Gres, Type: p.Type, Indices: p.Indices, Count: p.Count, Source: config.Fixed}}
		}
		a.note("policy %d fits", i+1)
		return a, nil
	}
	return a, nil
}

// said returns what the first policy says that fits the job and says any of it, or else what holds anyway.
func said[T comparable](c config.Config, j job.Job, of func(config.Policy) T, anyway T) T {
	var none T
	for _, p := range c.Policies {
		if says := of(p); says != none && fits(p, j) {
			return says
		}
	}
	return anyway
}

// Isolation returns the job's own part of the node: what the first policy says that fits the
// job and says anything of it, or else what holds for all jobs.
func Isolation(c config.Config, j job.Job) string {
	return said(c, j, func(p config.Policy) string { return p.Isolation }, c.Access.Isolation)
}

// CM tells whether a job on a node of so many CPUs gets rdma_cm: what the first policy says that fits
// the job and says anything of it, or else what holds for all jobs.
func CM(c config.Config, j job.Job, cpus int) bool {
	says := said(c, j, func(p config.Policy) string { return p.CM }, c.Access.CM)
	return says == config.CMYes || says == config.CMAuto && j.Share.Whole(cpus)
}

// VF returns what the PF does for a VF of a job: each thing as the first policy says that fits the job
// and says it, or else as the VF's own table does.
func VF(c config.Config, j job.Job, own config.VF) (vf config.VF) {
	for _, p := range c.Policies {
		if fits(p, j) {
			vf = vf.Or(p.VF)
		}
	}
	return vf.Or(own)
}

// PKey returns the P_Key of a job's slots of an HCA: what the first policy says that fits the job and says
// any, or else what the HCA's own table does; 0 if neither says one.
func PKey(c config.Config, j job.Job, own node.PKey) node.PKey {
	return said(c, j, func(p config.Policy) node.PKey { return p.PKey }, own)
}

func fits(p config.Policy, j job.Job) bool {
	for _, c := range []struct{ wanted, has []string }{
		{p.Partition, []string{j.Partition}},
		{p.Account, []string{j.Account}},
		{p.QOS, []string{j.QOS}},
		{p.Reservation, []string{j.Reservation}},
		{p.Constraint, j.Features},
	} {
		if len(c.wanted) > 0 && !slices.ContainsFunc(c.has, func(v string) bool { return slices.Contains(c.wanted, v) }) {
			return false
		}
	}
	return true
}
