// Package job has the words for who asks: the job, as slurmd describes it to
// the Prolog and the Epilog.
//
// slurmd writes its own variables last (Slurm src/plugins/prep/script/
// prep_script_slurmd.c:_build_env), so what is read here is Slurm's word. What
// a user writes is not read at all: SPANK_*, the comment, the extra field, the
// working directory and the paths.
package job

import (
	"fmt"
	"strconv"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// maxID is Slurm's largest number for an id: MAX_FED_JOB_ID of slurm.h. What is
// above means "none" (NO_VAL) or "without limit" (INFINITE), and as a uid
// "leave it as it is" to chown.
const maxID = 0xfffffffd

// Job is what Slurm says about a job on this node.
type Job struct {
	ID       uint32
	Run      Run
	UID, GID uint32
	User     string    // name of UID; empty if Slurm did not say
	Node     string    // Slurm's name for this node; empty if Slurm did not say
	Nodes    string    // the job's nodes, as Slurm writes a list of them; empty if Slurm did not say
	GPUs     []int     // Slurm's indices of the job's GPUs on this node, ascending
	Conf     string    // the slurm.conf that slurmd uses, for programs that ask slurmctld
	Leader   uint32    // of a component of a heterogeneous job: the first one's id; 0: the job is none
	Others   []string  // lists of nodes on which other components have HCAs, as far as somebody has asked
	Start    time.Time // zero: Slurm did not say, as before 23.02

	// What a site's policy may go by; empty if the job has none or Slurm did not say.
	Partition, Account, Reservation string
	QOS                             string   // Slurm says it since 26.05
	Features                        []string // that every node of the job must have
	Share                           Share
}

// FromEnv returns the job that a prolog runs for.
func FromEnv(getenv func(string) string) (Job, error) {
	j := Job{
		User: getenv("SLURM_JOB_USER"),
		Node: getenv("SLURMD_NODENAME"),
		Conf: getenv("SLURM_CONF"),
	}
	j.Nodes = getenv("SLURM_NODELIST")
	j.Partition = getenv("SLURM_JOB_PARTITION")
	j.Account = getenv("SLURM_JOB_ACCOUNT")
	j.Reservation = getenv("SLURM_JOB_RESERVATION")
	j.QOS = getenv("SLURM_JOB_QOS")
	j.Features = features(getenv("SLURM_JOB_CONSTRAINTS"))
	j.Share = shareFrom(getenv)
	if start, err := number(getenv("SLURM_JOB_START_TIME")); err == nil {
		j.Start = time.Unix(int64(start), 0)
	}
	var err error
	if j.ID, err = idFrom(getenv); err != nil {
		return Job{}, err
	}
	if j.Run, err = runFrom(getenv); err != nil {
		return Job{}, err
	}
	if j.UID, err = required(getenv, "SLURM_JOB_UID"); err != nil {
		return Job{}, err
	}
	if j.GID, err = required(getenv, "SLURM_JOB_GID"); err != nil {
		return Job{}, err
	}
	if text := getenv("SLURM_HET_JOB_ID"); text != "" { // only such a job has the variable
		if j.Leader, err = number(text); err != nil {
			return Job{}, variable("SLURM_HET_JOB_ID", err)
		}
	}
	if text := getenv("SLURM_JOB_GPUS"); text != "" {
		if j.GPUs, err = node.ParseIndices(text); err != nil {
			return Job{}, variable("SLURM_JOB_GPUS", err)
		}
	}
	return j, nil
}

// Ended returns the job that an epilog runs for. An epilog must not fail for want of
// what it can do without, so this is the id and the run, and the uid if it is there.
func Ended(getenv func(string) string) (Job, error) {
	var j Job
	var err error
	if j.ID, err = idFrom(getenv); err != nil {
		return Job{}, err
	}
	if j.Run, err = runFrom(getenv); err != nil {
		return Job{}, err
	}
	if uid, err := number(getenv("SLURM_JOB_UID")); err == nil {
		j.UID = uid
	}
	return j, nil
}

func idFrom(getenv func(string) string) (uint32, error) {
	id, err := required(getenv, "SLURM_JOB_ID")
	if err == nil && id == 0 {
		return 0, variable("SLURM_JOB_ID", fmt.Errorf("parse number %q: out of range", "0"))
	}
	return id, err
}

// required returns the number in a variable that slurmd always sets.
func required(getenv func(string) string, name string) (uint32, error) {
	text := getenv(name)
	if text == "" {
		return 0, environmentFault(fmt.Errorf("%s is not set", name))
	}
	n, err := number(text)
	if err != nil {
		return 0, variable(name, err)
	}
	return n, nil
}

// number parses a number as Slurm prints it: decimal digits and nothing else,
// no leading zero, so that no two texts are one number.
func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || strconv.FormatUint(n, 10) != text:
		return 0, fmt.Errorf("parse number %q", hint.Clip(text))
	case n > maxID:
		return 0, fmt.Errorf("parse number %q: out of range", text)
	}
	return uint32(n), nil
}

// variable says which variable an error is about, and where variables come from.
func variable(name string, err error) error {
	return environmentFault(fmt.Errorf("%s: %w", name, err))
}

func environmentFault(err error) error {
	return hint.With(err, "GN203 slurmd sets the SLURM_ variables for its Prolog and Epilog; by hand, set them as it does. People's commands: gresnet --help")
}
