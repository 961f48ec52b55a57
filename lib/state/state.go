// Package state says where gresnet keeps what it knows: the state directory, /run/gresnet, and in
// it a directory for each lease, with its mounts. Its locks keep prologs and epilogs of one node apart,
// and its records say how they ended.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gresnet/lib/base/hint"
)

// Dir is the state directory.
type Dir string

// Jobs returns the folder of all leases.
func (d Dir) Jobs() string { return filepath.Join(string(d), "jobs") }

// Locks returns the folder of the jobs' and the HCAs' locks.
func (d Dir) Locks() string { return filepath.Join(string(d), "locks") }

// Damaged returns the folder that keeps the journals of damaged leases for a person.
func (d Dir) Damaged() string { return filepath.Join(string(d), "damaged") }

// Lost returns the folder that keeps the journals of leases of which the node lost something.
func (d Dir) Lost() string { return filepath.Join(string(d), lost) }

const lost = "lost"

// NodeLock returns the lock under which what the node has for all jobs is changed.
func (d Dir) NodeLock() string { return filepath.Join(string(d), "node.lock") }

// Layout returns the file that says in which form the folders below have the node's state.
func (d Dir) Layout() string { return filepath.Join(string(d), "version") }

// The folders of the node's state. Each entry is a link or a small file, see package table.
const (
	Claims     = "claims"     // HCA or slot: a link to the lease that has it
	Quarantine = "quarantine" // HCA or slot: why no job gets it
	Uplinks    = "uplinks"    // address: a link to the lease that has it
	Numbers    = "numbers"    // number: a link to the HCA
	HCAs       = "hcas"       // HCA: what it is
	Hooked     = "hooked"     // interface: what it had before jobs shared its ports
	Shared     = "shared"     // HCA: who could open its device nodes before the first job with a slot
)

// Notices returns the folder of what jobs are told that get fewer HCAs than they could expect.
func (d Dir) Notices() string { return filepath.Join(string(d), "notices") }

// Notice returns the file with what a job is told.
func (d Dir) Notice(job uint32) string { return filepath.Join(d.Notices(), number(job)) }

// InUse returns the list of the HCAs that jobs have, for other programs. Everybody may read it.
func (d Dir) InUse() string { return filepath.Join(string(d), "in-use") }

// Settings returns the file with the sysctls that the kernel makes a new network namespace with.
func (d Dir) Settings() string { return filepath.Join(string(d), "settings") }

// Records returns the folder of what prologs and epilogs say of their runs.
func (d Dir) Records() string { return filepath.Join(string(d), "runs") }

// Record returns what a job's prolog said of its run.
func (d Dir) Record(job uint32) string { return filepath.Join(d.Records(), number(job)) }

// LastProlog returns what the last prolog said of its run.
func (d Dir) LastProlog() string { return filepath.Join(d.Records(), "prolog") }

// LastEpilog returns what the last epilog said of its run.
func (d Dir) LastEpilog() string { return filepath.Join(d.Records(), "epilog") }

// FailedEpilog returns what the last epilog that failed said of its run.
func (d Dir) FailedEpilog() string { return filepath.Join(d.Records(), "failed") }

// Expected returns what says that each job's prolog leaves a record here.
func (d Dir) Expected() string { return filepath.Join(d.Records(), "expected") }

// Missed returns what the SPANK plugin says of a job whose prolog left no record of success.
func (d Dir) Missed() string { return filepath.Join(d.Records(), "missed") }

// MakeRecords makes the folder of records, which users do not reach.
func (d Dir) MakeRecords() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return d.Fault(err)
	}
	if err := os.Mkdir(d.Records(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return d.Fault(err)
	}
	return nil
}

// MetricsLock returns the lock of the file for Prometheus.
func (d Dir) MetricsLock() string { return filepath.Join(string(d), "metrics.lock") }

// PendingMetrics returns the folder of what runs have counted that is not in that file yet.
func (d Dir) PendingMetrics() string { return filepath.Join(string(d), "metrics") }

// AccessLock returns the lock that holds together what is done to the node's own device nodes and
// the mark Undone.
func (d Dir) AccessLock() string { return filepath.Join(d.Locks(), "access") }

// Undone returns the mark that setup --undo has opened device nodes to users again: as long as it is
// there, no run restricts them.
func (d Dir) Undone() string { return filepath.Join(string(d), "undone") }

// Known returns the folder in which udev's rule finds the HCAs whose device nodes it restricts.
func (d Dir) Known() string { return filepath.Join(string(d), "closed") }

// IsUndone tells whether that mark is there.
func (d Dir) IsUndone() bool { return isThere(d.Undone()) }

// Lease returns the directory of a job's lease.
func (d Dir) Lease(job uint32) Lease { return Lease(filepath.Join(d.Jobs(), number(job))) }

func number(job uint32) string { return strconv.FormatUint(uint64(job), 10) }

// IsMade tells whether there is a state directory: something of gresnet has run since the boot.
func (d Dir) IsMade() bool { return isThere(d.Jobs()) }

// Make makes the directories. Users reach neither leases nor locks.
func (d Dir) Make() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return d.Fault(err)
	}
	for _, dir := range []string{d.Jobs(), d.Locks()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return d.Fault(err)
		}
	}
	return nil
}

// Fault adds a hint to an error about the state directory.
func (d Dir) Fault(err error) error {
	if hint.Of(err) != "" {
		return err
	}
	return hint.With(err, "GN299 have "+string(d)+" on a file system that is mounted read-write and has space")
}

// Lease is the directory of a job's lease.
type Lease string

func (l Lease) file(name string) string { return filepath.Join(string(l), name) }

// Journal returns the lease's journal.
func (l Lease) Journal() string { return l.file("journal") }

// Netns returns the file on which the job's network namespace is mounted.
func (l Lease) Netns() string { return l.file("netns") }

// Devices returns the job's own /dev/infiniband.
func (l Lease) Devices() string { return l.file("dev") }

// OthersNodes returns what all other leases have in their own /dev/infiniband.
func (l Lease) OthersNodes() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(string(l)), "*", "dev", "*"))
	return slices.DeleteFunc(all, func(path string) bool { return filepath.Dir(path) == l.Devices() }), err
}

// JobOfNode returns the job whose lease has a path that OthersNodes returns.
func JobOfNode(path string) string { return filepath.Base(filepath.Dir(filepath.Dir(path))) }

// Env returns the file that makes the lease count: it is written last and removed first.
func (l Lease) Env() string { return l.file("env") }

// NewEnv returns the file that is written and then renamed to Env. Before that, the file of the node's Settings is
// written there and renamed.
func (l Lease) NewEnv() string { return l.file("env.new") }

// Limits returns the file by which the SPANK plugin limits the job, in its extern step.
func (l Lease) Limits() string { return l.file("limits") }

// Hosts returns the file that the SPANK plugin mounts over /etc/hosts of the job's tasks.
func (l Lease) Hosts() string { return l.file("hosts") }

// ResolvConf returns the file that the SPANK plugin mounts over /etc/resolv.conf of the job's
// tasks.
func (l Lease) ResolvConf() string { return l.file("resolv.conf") }

// Mark returns the file by which the SPANK plugin says, in the job's extern step, that the job has
// such a step: it lives from the prolog's end to the epilog.
func (l Lease) Mark() string { return l.file("extern") }

// Exists tells whether there is a lease. In doubt there is.
func (l Lease) Exists() bool {
	_, err := os.Lstat(string(l))
	return !errors.Is(err, fs.ErrNotExist)
}

// IsLost tells whether the lease was set aside since the node lost something of it.
func (l Lease) IsLost() bool { return filepath.Base(filepath.Dir(string(l))) == lost }

// Counts tells whether the lease counts.
func (l Lease) Counts() bool { return isThere(l.Env()) }

// Marked tells whether the job had an extern step.
func (l Lease) Marked() bool { return isThere(l.Mark()) }

// Begun tells whether the lease has what only comes after entries of the journal.
func (l Lease) Begun() bool { return isThere(l.Netns()) || isThere(l.Devices()) }

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Remove removes a file, if it is there.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Replace replaces a file that everybody may read, by rename from another name: no reader meets half of it.
// There is no fsync: a job would wait for the disk, and what a crash of the node leaves may start again.
func Replace(path, next string, text []byte) error {
	if err := Remove(next); err != nil { // a killed process left it
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = hint.Join(err, file.Chmod(0o644), file.Close()) // slurmd's umask may be any
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return hint.Join(err, Remove(next))
	}
	return nil
}

// End makes a lease count no longer, whatever has the name of its Env.
func (l Lease) End() error { return os.RemoveAll(l.Env()) }

// Remove removes the directory of a lease in which nothing is left but what a killed process left
// there. The journal goes last, and only if nothing is there that it may be about.
func (l Lease) Remove() error {
	if !l.Exists() {
		return nil
	}
	for _, path := range []string{l.Netns(), l.Devices()} {
		if isThere(path) {
			return fmt.Errorf("remove the lease %s: %s is there still", string(l), filepath.Base(path))
		}
	}
	if err := l.End(); err != nil {
		return err
	}
	for _, path := range []string{l.NewEnv(), l.Limits(), l.Hosts(), l.ResolvConf(), l.Mark(), l.Journal(), string(l)} {
		if err := Remove(path); err != nil {
			return err
		}
	}
	return nil
}
