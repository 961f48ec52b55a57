package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/job"
)

// Record is what one run of a program left: did slurmd start it, through which script, and how did it end? There is
// one of each job's prolog, of the last prolog and of the last epilog. A site's own script can swallow an exit code,
// or never reach the call; its text does not tell, and the record does.
//
// A record is a symbolic link whose target is the text: the kernel makes it whole or not at all, and a
// short one takes no space of a full /run. The SPANK plugin reads the job's (spank/record.c), check
// reads the others.
type Record struct {
	Exit   int
	Lease  bool // of a prolog: the job has a lease
	Job    uint32
	Run    job.Run
	Caller Caller
	Why    string // why it failed
	At     time.Time
}

// inline is the length of a target from which tmpfs takes a page for it (mm/shmem.c,
// SHORT_SYMLINK_LEN), and most what is kept of a reason.
const (
	inline = 127
	most   = 700
)

// String returns the record as the target of a link.
func (s Record) String() string {
	text := fmt.Sprintf("exit=%d lease=%s job=%d run=%s by=%s", s.Exit, yes(s.Lease), s.Job, s.Run, s.Caller)
	if s.Why != "" {
		text += " why=" + s.Why
	}
	return Printable(text[:min(len(text), most)])
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// Printable returns a text as the plugin prints it to a user, on one line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// parseRecord parses what String returns.
func parseRecord(text string) (Record, error) {
	var s Record
	rest, why, _ := strings.Cut(text, " why=")
	s.Why = why
	have := map[string]string{}
	for _, field := range strings.Fields(rest) {
		key, value, _ := strings.Cut(field, "=")
		have[key] = value
	}
	exit, err := strconv.Atoi(have["exit"])
	id, bad := strconv.ParseUint(have["job"], 10, 32)
	run, worse := job.ParseRun(have["run"])
	if err := cmp.Or(err, bad, worse); err != nil {
		return s, fmt.Errorf("parse record %q: %w", text, err)
	}
	s.Exit, s.Lease, s.Job, s.Run, s.Caller = exit, have["lease"] == "yes", uint32(id), run, parseCaller(have["by"])
	return s, nil
}

// BeginProlog removes what an earlier run of the job left: a prolog that is killed leaves no record.
func (d Dir) BeginProlog(id uint32) { _ = os.Remove(d.Record(id)) }

// EndProlog leaves the record of a prolog, for its job and as that of the last one.
func (d Dir) EndProlog(s Record) error {
	s.Lease = d.Lease(s.Job).Exists()
	if err := d.leave(d.Record(s.Job), s); err != nil {
		return err
	}
	return d.leave(d.LastProlog(), s)
}

// EndEpilog leaves the record of an epilog, and keeps that of the last one that failed.
func (d Dir) EndEpilog(s Record) error {
	if s.Exit != 0 {
		if err := d.leave(d.FailedEpilog(), s); err != nil {
			return err
		}
	}
	return d.leave(d.LastEpilog(), s)
}

// leave makes a link, in place of one that is there. On a full file system it leaves the reason out.
func (d Dir) leave(name string, s Record) error {
	err := link(d.MakeRecords, s.String(), name, time.Time{})
	if errors.Is(err, syscall.ENOSPC) {
		err = link(d.MakeRecords, s.String()[:min(len(s.String()), inline)], name, time.Time{})
	}
	if err != nil {
		return fmt.Errorf("leave a record of the run: %w", err)
	}
	return nil
}

// link makes a symbolic link, of a time if that is not zero, and the folder for it if there is none. It
// replaces one that is there by rename, so a kill leaves the one or the other. Of two runs at once the
// later one counts.
func link(folder func() error, to, name string, at time.Time) error {
	next := name + ".new"
	if err := Remove(next); err != nil {
		return err
	}
	err := os.Symlink(to, next)
	if errors.Is(err, fs.ErrNotExist) {
		if err = folder(); err == nil {
			err = os.Symlink(to, next)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !at.IsZero() {
		times := unix.NsecToTimeval(at.UnixNano())
		err = unix.Lutimes(next, []unix.Timeval{times, times})
	}
	if err == nil {
		err = os.Rename(next, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// ReadRecord reads the record of a job; nil if it has none.
func (d Dir) ReadRecord(id uint32) *Record { return readRecord(d.Record(id)) }

func readRecord(name string) *Record {
	text, at, ok := target(name)
	if !ok {
		return nil
	}
	s, err := parseRecord(text)
	if err != nil {
		return nil
	}
	s.At = at
	return &s
}

func target(name string) (text string, at time.Time, ok bool) {
	info, err := os.Lstat(name)
	if err != nil {
		return "", at, false
	}
	text, err = os.Readlink(name)
	return text, info.ModTime(), err == nil
}
