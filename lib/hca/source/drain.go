package source

import (
	"context"
	"fmt"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/poll"
)

// Drain has Slurm drain the job's node, so that sinfo -R says why a run has failed, if the site wants that. A
// prolog that fails drains it anyway, for "Prolog error", and slurmctld keeps a reason that is there
// (node_mgr.c:drain_nodes). The reason of somebody who has drained the node already stays.
func Drain(ctx context.Context, site config.Slurm, j job.Job, cause error) error {
	if cause == nil || !site.DrainReason {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, poll.Drain)
	defer cancel()
	scontrol, err := FindScontrol(site.Scontrol)
	if err != nil {
		return err
	}
	c := call(scontrol, j.Conf, "show", "node", "-o", j.Node)
	said, err := c.Run(ctx)
	if err != nil {
		return fmt.Errorf("ask %s about node %s: %w", scontrol, j.Node, err)
	}
	if isDrained(said) {
		return nil
	}
	c.Args = []string{"update", "nodename=" + j.Node, "state=drain", "reason=" + oneLine(reason(cause))}
	if _, err := c.Run(ctx); err != nil {
		return fmt.Errorf("give %s the reason why node %s is drained: %w", scontrol, j.Node, err)
	}
	return nil
}

// reason returns why a node is drained. The id of the message comes first: sinfo -R cuts off the end.
func reason(cause error) string {
	if id := hint.ID(cause); id != "" {
		return "gresnet: " + id + ": " + cause.Error()
	}
	return "gresnet: " + cause.Error()
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
