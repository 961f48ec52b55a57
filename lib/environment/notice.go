package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/lock"
	"gresnet/lib/proc"
)

// A job that gets fewer HCAs than it could expect is told why in its steps, by one line
// that the prolog leaves for the SPANK plugin. Most such jobs get none, and so have no
// lease: the line is in a file of its own, which the job's epilog removes.

func (n *Host) noticeFolder() string { return filepath.Join(n.State, "notes") }
func (n *Host) noticeOf(job uint32) string {
	return filepath.Join(n.noticeFolder(), strconv.FormatUint(uint64(job), 10))
}

// maxNotice bounds what a job is told; the journal has all of it.
const maxNotice = 1000

// writeNotice leaves the line. A job that cannot be told has what it gets all the same.
func (n *Host) writeNotice(j job.Job, why []string) {
	if len(why) == 0 {
		return
	}
	text := printable(fmt.Sprintf("job %d has fewer HCAs than it could expect on %s: %s", j.ID, n.nameOf(j), strings.Join(why, "; ")))
	text = text[:min(len(text), maxNotice)]
	n.Notice(j.ID, "the job is told: %s", text)
	err := os.MkdirAll(n.noticeFolder(), 0o700)
	if err == nil {
		err = os.WriteFile(n.noticeOf(j.ID), []byte(text+"\n"), 0o600)
	}
	if err != nil {
		n.Notice(j.ID, "tell the job why it has fewer HCAs: %s", err)
	}
}

// nameOf is the node's name for people.
func (n *Host) nameOf(j job.Job) string {
	if j.Node == "" {
		return "this node"
	}
	return j.Node
}

// removeNotice removes the line, if there is one.
func (n *Host) removeNotice(job uint32) {
	if err := os.Remove(n.noticeOf(job)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Notice(job, "remove what the job was told: %s", err)
	}
}

// removeGoneNotices removes the lines of jobs that are gone without an epilog and have no lease.
// A job whose prolog has just ended has no step yet.
func (n *Host) removeGoneNotices(boot bool) error {
	entries, err := os.ReadDir(n.noticeFolder())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return n.StateFault(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		id, bad := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || bad != nil || !boot && time.Since(info.ModTime()) < grace {
			continue
		}
		if err := n.removeNoticeIfGone(uint32(id)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Host) removeNoticeIfGone(id uint32) error {
	held, err := lock.TryJob(n.Locks(), id)
	if errors.Is(err, lock.ErrHeld) {
		return nil
	}
	if err != nil {
		return n.StateFault(err)
	}
	return n.under(held, id, func() error {
		if _, err := os.Lstat(n.Dir(id)); !errors.Is(err, fs.ErrNotExist) {
			return nil // it goes with the lease
		}
		steps, err := proc.Steps(id)
		if err != nil || len(steps) > 0 {
			return err
		}
		n.removeNotice(id)
		return nil
	})
}

// passedOver says why a job does without what it would have had, had it been free.
func passedOver(list []gres.Holding) (why []string) {
	for _, h := range list {
		why = append(why, fmt.Sprintf("%s (%s) is not granted: %s", h.Entry, h.Entry.HCA.Name, h.Holder))
	}
	return why
}

// printable is a text as the plugin takes it, on one line: a user's own words may be in it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
