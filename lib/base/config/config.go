// Package config has the words for what the site wants: gresnet.toml.
//
// It is strict. A key that is not known, a value that cannot be meant, a thing
// said twice: each is an error that names the file, the line and the key
// (toml.go, table.go).
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/trust"
)

// Config is what gresnet.toml says.
type Config struct {
	Slurm       Slurm
	Deadline    Deadline
	Access      Access
	Limits      Limits
	Environment Environment
	HCAs        []HCA    // without any, HCAs are numbered in PCI order
	Policies    []Policy // the first that fits a job counts

	Log        Log
	Metrics    Metrics
	Accounting Accounting
	Health     Health
	Hooks      Hooks
	RDMA       RDMA
	Uplink     Uplink
	Overlay    Overlay
}

// Deadline is the table [deadline]: how long a run may take, all in all. slurmd
// ends a prolog or an epilog after PrologEpilogTimeout, with no regard for what
// it is at.
type Deadline struct {
	Prolog time.Duration // half of it is kept for undoing what was begun
	Epilog time.Duration // what is left then stays in the journal
}

// The sources that may say what a job is entitled to.
const (
	GPU      = "gpu"      // SLURM_JOB_GPUS, and the HCAs that serve them
	Node     = "node"     // a job that has the node to itself has all of its HCAs
	Fixed    = "policy"   // the tables [[policy]]
	Program  = "program"  // a program of the site's
	Scontrol = "scontrol" // scontrol show resources, or show job -d
)

// allSources returns all of them.
func allSources() []string { return []string{GPU, Node, Fixed, Program, Scontrol} }

// What becomes of an HCA of whose GPUs a job has a part.
const (
	PartialNone  = "none"  // it is not granted
	PartialFirst = "first" // the first job that has one of its GPUs gets it
)

// Which HCAs a job gets for the indices that Slurm gave it.
const (
	IndexSlurm = "slurm" // those of the indices
	IndexNear  = "near"  // as many of the same type, the nearest that are free
)

// Slurm is the table [slurm]: how Slurm says what a job gets.
type Slurm struct {
	Gres     []string // GRES names that mean an HCA
	Source   []string // of allSources: asked in this order
	Partial  string   // PartialNone or PartialFirst
	Index    string   // IndexSlurm or IndexNear
	Scontrol string   // path of the program; empty: look in the usual places
	Program  string   // path of the program of source "program"
	// DrainReason has a prolog that fails tell slurmctld why.
	DrainReason bool
	Timeout     time.Duration // how long scontrol, or the site's program, may take: half of Deadline.Prolog if the site does not say
}

// Policy is a table [[policy]]: what a job of a kind gets. A condition that is
// empty fits every job; of its values one must fit.
type Policy struct {
	Partition, Account, QOS, Reservation []string
	Constraint                           []string // features: the job requires one of them

	// Silent is whether the policy says nothing of what the job gets: it is there
	// for its Isolation, its CM, its VF or its PKey, and source policy goes on to the next.
	Silent     bool
	Gres, Type string
	Count      int   // used when Indices is empty; 0: nothing
	Indices    []int // Slurm's indices of the GRES, ascending

	Isolation string // as Access has it; empty: this policy does not decide it
	CM        string // so, too
	VF        VF     // what the PFs do for the VFs of such a job

	PKey node.PKey // of its slots for partitions; 0: this policy does not decide it
}

// HCA is a table [[hca]]: one line of the GRES mapping, or one for each part of an HCA.
type HCA struct {
	Gres  string // one of Slurm.Gres
	Type  string // the GRES type; empty: any
	Index int    // Slurm's index of it, or of its first part, over all types of the name
	Match Match
	Part  string // of the Part* words: what a job gets of it
	Count int    // parts of it; 0: it is whole, or has slots without number

	// Network is where the interfaces of slots get their addresses; invalid: they get none.
	Network   netip.Prefix
	GPUs      []int // Slurm's indices of the GPUs that it serves, ascending; in parts, part n serves the n-th
	Interface Interface
	Take      bool // it goes even if its interface is reserved for the host
	VF        VF   // what the PF does for its VFs, unless a policy says otherwise

	PKey node.PKey // of its slots, unless a policy says otherwise; 0: only policies say it
}

// Interface says what becomes of an HCA's network interface.
type Interface int

// What becomes of a network interface.
const (
	Move Interface = iota // it is moved into the job's network namespace
	Keep                  // it stays in the root namespace
)

// What becomes of an HCA whose interface is reserved for the host.
const (
	nodeKeep = "keep" // no job gets it
	nodeTake = "take" // jobs get it all the same
)

// String returns the word that gresnet.toml has for it.
func (i Interface) String() string {
	if i == Keep {
		return "keep"
	}
	return "move"
}

// Default returns the configuration of a node that has no gresnet.toml. It is what the shipped file says.
func Default() Config {
	deadline := Deadline{Prolog: 100 * time.Second, Epilog: 100 * time.Second}
	return Config{Slurm: Slurm{
		Gres:    []string{"nic"},
		Source:  []string{Scontrol, GPU},
		Partial: PartialNone, Index: IndexSlurm,
		Timeout: deadline.Prolog / 2,
	}, Deadline: deadline,
		Access: Access{Host: Open, CM: CMAuto, Guard: GuardAuto, Isolation: IsolateNetwork}, Log: Log{Level: LogSteps}, Health: Health{Port: HealthWarn},
		Hooks:  Hooks{Timeout: 20 * time.Second, Fault: FaultJob},
		Uplink: Uplink{Kind: UplinkAuto, Name: UplinkName}, Overlay: defaultOverlay}
}

// Load reads a configuration file. One that is not there is an error if it
// must be, and the default otherwise.
func Load(path string, must bool) (Config, error) {
	data, err := read(path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && !must:
		return Default(), nil
	case missing:
		err = fmt.Errorf("read configuration: %w", err)
		return Config{}, hint.With(err, "GN145 say with --config where it is; without any, the defaults hold")
	case errors.Is(err, errUsers):
		return Config{}, hint.With(fmt.Errorf("read configuration: %w", err), "GN146 root must own it and all folders and links on its path, and nobody else may write to them: ls -ld, chown root, chmod go-w")
	case err != nil:
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(data, path)
}

// errUsers means that others than root may have written the file.
var errUsers = errors.New("root does not trust it")

// read reads the file. Root reads what root alone can have written, since it names programs
// that root runs.
func read(path string) ([]byte, error) {
	if os.Geteuid() != 0 {
		return os.ReadFile(path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	resolved, err := trust.Resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsers, err)
	}
	return os.ReadFile(resolved)
}
