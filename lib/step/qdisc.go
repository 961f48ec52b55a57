package step

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gresnet/lib/hint"
	"gresnet/lib/lock"
	"gresnet/lib/scan"
)

// defaultQdisc is the whole node's, and of its root namespace alone.
const defaultQdisc = "/proc/sys/net/core/default_qdisc"

// remake gives an interface that is home the queueing disciplines that the kernel had made for
// it, where it makes others by now: since net.core.default_qdisc was changed. Only that
// says what the kernel makes, so it is what it was for a moment. A notice names what the
// kernel does not make again.
func (s *Settings) remake(w *World, v *scan.View, index int) error {
	list, err := v.Link.MadeOtherwise(index, s.Settings)
	if err != nil {
		return err
	}
	for _, m := range list {
		// Kinds are mixed if the interface was given more queues: the kernel will not do that again.
		if len(m.Want) > 1 {
			continue
		}
		if err := w.underDefaultQdisc(m.Want[0], func() error { return v.Link.Remake(m) }); err != nil {
			w.Notice("%s: %s", m, err)
		}
	}
	left, err := v.Link.MadeOtherwise(index, s.Settings)
	for _, m := range left {
		w.Notice("%s", m)
	}
	return err
}

// qdiscFile is locked while the default is another, and says then what it was and what it
// is. It is empty, or absent, otherwise.
func qdiscFile(locks string) string { return filepath.Join(locks, "qdisc") }

// underDefaultQdisc calls a function while the kernel's default is of a kind.
func (w *World) underDefaultQdisc(kind string, f func() error) (err error) {
	file, err := lock.At(w.Context, qdiscFile(w.Locks))
	if err != nil {
		return fmt.Errorf("lock the default queueing discipline: %w", err)
	}
	defer file.Close()
	if err := giveBackDefaultQdisc(file); err != nil {
		return err
	}
	was, err := readDefaultQdisc()
	if err != nil {
		return err
	}
	if _, err := file.WriteAt([]byte(was+" "+kind), 0); err != nil {
		return err
	}
	defer func() { err = hint.Join(err, giveBackDefaultQdisc(file)) }()
	if err := os.WriteFile(defaultQdisc, []byte(kind), 0); err != nil {
		return err
	}
	return f()
}

// RestoreDefaultQdisc gives the node the default that a killed run may have left otherwise.
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
	return giveBackDefaultQdisc(file)
}

// giveBackDefaultQdisc does what the file, which is locked, says. A default that somebody else has set
// meanwhile stays.
func giveBackDefaultQdisc(file *lock.File) error {
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
