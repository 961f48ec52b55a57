package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
)

// Companions returns the lists of nodes on which other components of a heterogeneous job have HCAs. Slurm
// tells a prolog of its own component alone, so slurmctld is asked, and only for a site that has it asked
// first in any case. All nodes of the job must come to the same answer: so only what slurmctld says of a
// component decides, and no [[policy]] may leave one in its node's network.
func Companions(ctx context.Context, j job.Job, cfg config.Config) (nodes []string, err error) {
	decided := slices.ContainsFunc(cfg.Policies, func(p config.Policy) bool { return p.Isolation != "" })
	if j.Leader == 0 || decided || cfg.Access.Isolation == config.IsolateDevices || !cfg.Overlay.On() || slices.Index(cfg.Slurm.Source, config.Scontrol) != 0 {
		return nil, nil
	}
	program, err := FindScontrol(cfg.Slurm.Scontrol)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Slurm.Timeout)
	defer cancel()
	asking := &scontrol{program: program, conf: j.Conf}
	text, err := asking.askShow(ctx, strconv.FormatUint(uint64(j.Leader), 10))
	var all []component
	if err == nil {
		all, err = parseComponents(text, j.Leader, cfg.Slurm.Gres)
	}
	var refusal *gres.Refusal
	if errors.As(err, &refusal) {
		return nil, refusal
	}
	if err != nil {
		// The user may have ended the job's first component meanwhile: no fault of the node's.
		return nil, &gres.Refusal{
			Reason: gres.NoAnswer, Ask: fmt.Sprintf("where the other components of job %d are", j.Leader), Why: err.Error(),
			Do: "GN623 start the job again when slurmctld answers (scontrol ping)",
		}
	}
	own := slices.IndexFunc(all, func(c component) bool { return c.id == j.ID })
	if own < 0 || len(all[own].nodes) == 0 {
		return nil, nil // it has HCAs for its GPUs, which slurmctld does not say of the others
	}
	for _, c := range slices.Delete(all, own, own+1) {
		nodes = append(nodes, c.nodes...)
	}
	return nodes, nil
}

// component is a component of a heterogeneous job, and the lists of nodes on which it has HCAs.
type component struct {
	id    uint32
	nodes []string
}

// parseComponents reads what scontrol printed for the id of a heterogeneous job. What the job's user wrote
// may be among it, and name more nodes. Package jobnet takes the cluster's alone: the job then sends packets there that
// nobody takes.
func parseComponents(text string, leader uint32, names []string) (all []component, err error) {
	s, err := parseAlone(text)
	if err != nil {
		return nil, err
	}
	if err := s.about(leader); err != nil {
		return nil, err
	}
	whole := strconv.FormatUint(uint64(leader), 10) + "+"
	parts := 0 // of the last component's text that say what it has on which nodes: see show.allocated
	inside := false
	for line := range strings.Lines(text) {
		if h, ok := parseHead(line); ok && strings.HasPrefix(h.name, whole) {
			if slices.ContainsFunc(all, func(c component) bool { return c.id == h.id }) {
				return nil, imitated("job %d is in it twice", h.id)
			}
			all, parts, inside = append(all, component{id: h.id}), 0, false
			continue
		}
		switch {
		case strings.HasPrefix(line, beforeAllocated):
			if parts++; parts > 1 {
				return nil, imitated("it says %d times what a job has", parts)
			}
			inside = true
		case strings.HasPrefix(line, afterAllocated):
			inside = false
		}
		nodes, has, ok := parseGroup(strings.TrimRight(line, "\r\n"))
		if !ok || len(all) == 0 || !inside {
			continue
		}
		// A component whose GRES do not read is refused on its own nodes.
		if wants, err := gres.ParseDetail(has.gres, names); err == nil && len(wants) > 0 {
			c := &all[len(all)-1]
			c.nodes = append(c.nodes, nodes)
		}
	}
	return all, nil
}
