package world

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gresnet/lib/state/lock"
	"gresnet/lib/words/hint"
)

// defaultQdisc is the default for the whole node; only its root namespace has the file.
const defaultQdisc = "/proc/sys/net/core/default_qdisc"

// qdiscFile returns the file that a run locks while it changes the default. Meanwhile the file says
// what the default was and what it is. Otherwise it is empty or not there.
func qdiscFile(locks string) string { return filepath.Join(locks, "qdisc") }

// UnderDefaultQdisc calls f while the kernel's default has a kind.
func (w *World) UnderDefaultQdisc(kind string, f func() error) (err error) {
	file, err := lock.At(w.Context, qdiscFile(w.Locks))
	if err != nil {
		return fmt.Errorf("lock the default queueing discipline: %w", err)
	}
	defer file.Close()
	if err := restoreDefaultQdisc(file); err != nil {
		return err
	}
	was, err := readDefaultQdisc()
	if err != nil {
		return err
	}
	if _, err := file.WriteAt([]byte(was+" "+kind), 0); err != nil {
		return err
	}
	defer func() { err = hint.Join(err, restoreDefaultQdisc(file)) }()
	if err := os.WriteFile(defaultQdisc, []byte(kind), 0); err != nil {
		return err
	}
	return f()
}

// RestoreDefaultQdisc restores the node's default if a killed run has left another.
func (w *World) RestoreDefaultQdisc() error {
	info, err := os.Stat(qdiscFile(w.Locks))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	file, err := lock.At(w.Context, qdiscFile(w.Locks))
	if err != nil {
		return fmt.Errorf("lock the default queueing discipline: %w", err)
	}
	defer file.Close()
	return restoreDefaultQdisc(file)
}

// restoreDefaultQdisc does what the file, which is locked, says. A default that somebody else has
// set meanwhile stays.
func restoreDefaultQdisc(file *lock.File) error {
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return err
	}
	if was, kind, whole := strings.Cut(string(text), " "); whole {
		is, err := readDefaultQdisc()
		if err != nil {
			return err
		}
		if is == kind {
			if err := os.WriteFile(defaultQdisc, []byte(was), 0); err != nil {
				return fmt.Errorf("set the default queueing discipline to %s again: %w", was, err)
			}
		}
	}
	return file.Truncate(0)
}

func readDefaultQdisc() (string, error) {
	text, err := os.ReadFile(defaultQdisc)
	return strings.TrimSpace(string(text)), err
}
