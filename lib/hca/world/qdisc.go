package world

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gresnet/lib/hca/scan"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state/lock"
	"gresnet/lib/words/hint"
)

// defaultQdisc is the default for the whole node; only its root namespace has the file.
const defaultQdisc = "/proc/sys/net/core/default_qdisc"

// qdiscFile returns the file that a run locks while it changes the default. Meanwhile the file says
// what the default was and what it is. Otherwise it is empty or not there.
func qdiscFile(locks string) string { return filepath.Join(locks, "qdisc") }

// Remake gives an interface at home the queueing disciplines that the kernel had made for it, if
// net.core.default_qdisc has changed and the kernel makes others by now. Only that sysctl says
// what the kernel makes, so it has its old value for a moment. A notice names what the kernel does
// not make again.
func (w *World) Remake(v *scan.View, index int, s snapshot.Settings) error {
	list, err := v.Link.MadeOtherwise(index, s)
	if err != nil {
		return err
	}
	for _, m := range list {
		// Kinds are mixed if the interface was given more queues: the kernel will not do that
		// again.
		if len(m.Want) > 1 {
			continue
		}
		if err := w.underDefaultQdisc(m.Want[0], func() error { return v.Link.Remake(m) }); err != nil {
			w.Notice("%s: %s", m, err)
		}
	}
	left, err := v.Link.MadeOtherwise(index, s)
	for _, m := range left {
		w.Notice("%s", m)
	}
	return err
}

// underDefaultQdisc calls f while the kernel's default has a kind.
func (w *World) underDefaultQdisc(kind string, f func() error) (err error) {
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
