package table

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// Entry is what a link or a file has.
type Entry struct {
	Target string // of a link; empty for a file
	Text   string // of a file

	UID  uint32 // the link's owner
	Made int64  // when the link was made, in nanoseconds; 0: it does not matter

	Odd bool // neither a link nor a file where one should be
}

// Time returns when the link was made.
func (e Entry) Time() time.Time { return time.Unix(0, e.Made) }

// ReadFileEntry reads a file.
func ReadFileEntry(path string) (Entry, error) {
	text, err := os.ReadFile(path)
	return Entry{Text: string(text)}, err
}

// ReadLinkEntry reads a link, without its owner and its time.
func ReadLinkEntry(path string) (e Entry, err error) {
	e.Target, err = os.Readlink(path)
	return e, err
}

// ReadOwnedEntry reads a link with its owner and its time.
func ReadOwnedEntry(path string) (Entry, error) {
	e, err := ReadLinkEntry(path)
	if err != nil {
		return Entry{}, err
	}
	var stat unix.Stat_t
	err = unix.Lstat(path, &stat)
	e.UID, e.Made = stat.Uid, stat.Mtim.Nano()
	return e, err
}

// Write makes or replaces an entry. Names that begin with a dot are not for entries.
func (e Entry) Write(path string) error {
	next := filepath.Join(filepath.Dir(path), ".new")
	err := os.RemoveAll(next) // a killed process left it
	if err == nil && e.Target == "" {
		err = os.WriteFile(next, []byte(e.Text), 0o600)
	} else if err == nil {
		err = e.link(next)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return hint.Join(err, os.RemoveAll(next))
	}
	return nil
}

func (e Entry) link(path string) error {
	err := os.Symlink(e.Target, path)
	if err == nil && int(e.UID) != os.Geteuid() {
		err = os.Lchown(path, int(e.UID), -1)
	}
	if err == nil && e.Made != 0 {
		made := unix.NsecToTimespec(e.Made)
		err = unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{made, made}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return err
}
