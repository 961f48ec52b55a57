package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/program"
)

// programSource answers with what a program of the site's says. The program
// gets the job's id as its argument and what slurmd says of the job in its
// environment; it prints a GRES on each line, or the one line "none", or nothing
// if it does not know the job.
type programSource struct {
	program string
	names   []string
	timeout time.Duration
}

// maxEntitlement bounds what a site's program may say.
const maxEntitlement = 64 << 10

func (s programSource) ask(ctx context.Context, j job.Job) (answer, error) {
	start := time.Now()
	text, err := s.run(ctx, j)
	var wants []gres.Want
	if err == nil && text != "" {
		wants, err = parseEntitlement(text, s.names, config.Program)
	}
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		return answer{}, hint.With(
			fmt.Errorf("ask %s about job %d: after %s: %w", s.program, j.ID, took, err),
			`GN246 only root may be able to write the program, and it must print a GRES on each line, like "nic:2" or "nic:1(IDX:3)", or "none", or nothing; slurm.timeout is how long it may take`,
		)
	}
	a := answer{mine: text != "", wants: wants}
	if a.mine {
		a.note("%s took %s and says %s", s.program, took, describeWants(wants))
	} else {
		a.note("%s took %s and does not know the job", s.program, took)
	}
	return a, nil
}

func (s programSource) run(ctx context.Context, j job.Job) (string, error) {
	if err := program.Check(s.program); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	id := strconv.FormatUint(uint64(j.ID), 10)
	return program.Program{Path: s.program, Args: []string{id}, Env: Environment(j), Max: maxEntitlement}.Run(ctx)
}

func describeWants(wants []gres.Want) string {
	if len(wants) == 0 {
		return "none"
	}
	texts := make([]string, len(wants))
	for i, w := range wants {
		texts[i] = w.String()
	}
	return strings.Join(texts, ",")
}

// parseEntitlement parses what a site's program says: a GRES on each line, or
// the one line "none". It must end with a line's end, so that half of it is never
// taken for the whole.
func parseEntitlement(text string, names []string, source string) ([]gres.Want, error) {
	body, whole := strings.CutSuffix(text, "\n")
	switch {
	case !whole:
		return nil, errors.New("it does not end with a line's end: it is cut off")
	case body == "none":
		return nil, nil
	}
	return gres.ParseRequest(strings.ReplaceAll(body, "\n", ","), names, source)
}

// CheckProgram tells whether the site's program can be asked.
func CheckProgram(path string) error {
	if err := program.Check(path); err != nil {
		return hint.With(fmt.Errorf("ask %s: %w", path, err), "GN247 correct slurm.program; root must own the program and all folders on its path, and nobody else may write to them: ls -ld, chown root, chmod go-w,+x")
	}
	return nil
}

// Environment returns what a site's program learns of a job, in slurmd's own words.
func Environment(j job.Job) []string {
	var env []string
	for _, v := range []struct{ name, value string }{
		{"SLURM_JOB_ID", fmt.Sprint(j.ID)},
		{"SLURM_JOB_RESTART_COUNT", fmt.Sprint(j.Run.Restart)},
		{"SLURM_JOB_SLUID", j.Run.SLUID},
		{"SLURM_JOB_UID", fmt.Sprint(j.UID)},
		{"SLURM_JOB_GID", fmt.Sprint(j.GID)},
		{"SLURM_JOB_USER", j.User},
		{"SLURM_JOB_PARTITION", j.Partition},
		{"SLURM_JOB_ACCOUNT", j.Account},
		{"SLURM_JOB_QOS", j.QOS},
		{"SLURM_JOB_RESERVATION", j.Reservation},
		{"SLURM_JOB_GPUS", node.FormatIndices(j.GPUs)},
		{"SLURMD_NODENAME", j.Node},
		{"SLURM_CONF", j.Conf},
	} {
		if v.value != "" {
			env = append(env, v.name+"="+v.value)
		}
	}
	return env
}
