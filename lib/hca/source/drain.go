package source

import (
	"context"
	"fmt"
	"strings"

	"gresnet/lib/kernel/program"
	"gresnet/lib/words/config"
	"gresnet/lib/words/job"
	"gresnet/lib/words/poll"
)

// Drain has Slurm drain the job's node with a reason. A prolog that fails drains it anyway, for
// "Prolog error", and slurmctld keeps a reason that is there (node_mgr.c:drain_nodes). The reason of
// somebody who has drained the node already stays.
func Drain(ctx context.Context, site config.Slurm, j job.Job, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Drain)
	defer cancel()
	scontrol, err := FindScontrol(site.Scontrol)
	if err != nil {
		return err
	}
	c := program.Program{Path: scontrol, Args: []string{"show", "node", "-o", j.Node}, Max: maxOutput}
	if j.Conf != "" {
		c.Env = []string{"SLURM_CONF=" + j.Conf}
	}
	said, err := c.Run(ctx)
	if err != nil {
		return fmt.Errorf("ask %s about node %s: %w", scontrol, j.Node, err)
	}
	if isDrained(said) {
		return nil
	}
	c.Args = []string{"update", "nodename=" + j.Node, "state=drain", "reason=" + oneLine(reason)}
	if _, err := c.Run(ctx); err != nil {
		return fmt.Errorf("give %s the reason why node %s is drained: %w", scontrol, j.Node, err)
	}
	return nil
}

// isDrained tells by what scontrol says of a node whether somebody has taken it out of service:
// State=IDLE+DRAIN, State=DOWN*.
func isDrained(said string) bool {
	for _, field := range strings.Fields(said) {
		state, is := strings.CutPrefix(field, "State=")
		if is && (strings.Contains(state, "DRAIN") || strings.Contains(state, "DOWN") || strings.Contains(state, "FAIL")) {
			return true
		}
	}
	return false
}

// maxReason bounds a reason, so that sinfo -R shows it on a line.
const maxReason = 200

// oneLine returns a reason that Slurm takes and a terminal can show.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r < ' ', r > '~':
			return ' '
		}
		return r
	}, text)
	if len(text) > maxReason {
		text = text[:maxReason-3] + "..."
	}
	return text
}
