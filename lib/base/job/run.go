package job

import (
	"fmt"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
)

// Run is one run of a job: a job that is requeued keeps its id and runs again.
type Run struct {
	Restart uint32 // how often the job was requeued
	SLUID   string // Slurm's own name for the run; empty before Slurm 25.11
}

// String is "2", or "2/s8KQ3V7Z1" where Slurm names the run.
func (r Run) String() string {
	s := strconv.FormatUint(uint64(r.Restart), 10)
	if r.SLUID != "" {
		s += "/" + r.SLUID
	}
	return s
}

// ParseRun parses what String prints.
func ParseRun(text string) (Run, error) {
	restart, sluid, named := strings.Cut(text, "/")
	n, err := number(restart)
	if err != nil {
		return Run{}, fmt.Errorf("parse run %q: %w", hint.Clip(text), err)
	}
	if named {
		if err := checkSLUID(sluid); err != nil {
			return Run{}, fmt.Errorf("parse run %q: %w", hint.Clip(text), err)
		}
	}
	return Run{Restart: n, SLUID: sluid}, nil
}

func runFrom(getenv func(string) string) (Run, error) {
	var r Run
	if text := getenv("SLURM_JOB_RESTART_COUNT"); text != "" {
		n, err := number(text)
		if err != nil {
			return Run{}, variable("SLURM_JOB_RESTART_COUNT", err)
		}
		r.Restart = n
	}
	if text := getenv("SLURM_JOB_SLUID"); text != "" {
		if err := checkSLUID(text); err != nil {
			return Run{}, variable("SLURM_JOB_SLUID", err)
		}
		r.SLUID = text
	}
	return r, nil
}

// checkSLUID keeps to letters and digits: a run is written to files of lines.
func checkSLUID(text string) error {
	const most = 32
	if text == "" || len(text) > most {
		return fmt.Errorf("SLUID %q is not 1 to %d characters long", hint.Clip(text), most)
	}
	for _, c := range []byte(text) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return fmt.Errorf("SLUID %q has a character that is no letter or digit", hint.Clip(text))
		}
	}
	return nil
}
