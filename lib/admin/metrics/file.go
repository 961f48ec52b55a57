package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gresnet/lib/base/hint"
	"gresnet/lib/state"
)

// File is where node_exporter reads, and the lock of those who write there.
type File struct {
	Path string
	// Lock is not beside Path, whose folder may be another user's.
	Lock string
	// Pending is a folder of pages that runs have counted and that are not in the file yet.
	Pending string
}

// most is the size of what is read back; all series together have a few KiB.
const most = 1 << 20

// maxPending is how many pages may be pending, where the file cannot be written.
const maxPending = 100

// Defer records what a run has counted, for the next Update. A run that waits in vain for its turn
// loses nothing by that.
func (f File) Defer(p *Page) error {
	if err := os.MkdirAll(filepath.Dir(f.Pending), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(f.Pending, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	pending, err := os.ReadDir(f.Pending)
	if err == nil && len(pending) >= maxPending {
		err = fmt.Errorf("there are %d runs already that are not in the file", len(pending))
	}
	if err != nil {
		return err
	}
	page, err := os.CreateTemp(f.Pending, "")
	if err != nil {
		return err
	}
	_, err = page.Write(p.Text())
	err = hint.Join(err, page.Close())
	if err == nil {
		err = os.Rename(page.Name(), page.Name()+whole)
	}
	if err != nil {
		return hint.Join(err, state.Remove(page.Name()))
	}
	return nil
}

// whole is how the name of a page ends that is written to its end.
const whole = ".prom"

// collect counts the pending pages. counted are their files.
func (f File) collect(page *Page) (counted []string, err error) {
	counted, err = filepath.Glob(filepath.Join(f.Pending, "*"+whole))
	for _, name := range counted {
		text, readErr := os.ReadFile(name)
		if readErr != nil {
			return nil, readErr
		}
		if pending, parseErr := parse(text); parseErr == nil { // else another version wrote it
			err = hint.Join(err, page.count(pending))
		}
	}
	return counted, err
}

// Update adds to the page what is pending, changes it under the lock, and replaces the file. A file
// that cannot be read is replaced by one that starts again: restarted says why.
func (f File) Update(ctx context.Context, change func(*Page) error) (restarted, err error) {
	held, err := state.LockFile(ctx, f.Lock)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	page, restarted := f.read()
	if errors.Is(restarted, fs.ErrNotExist) {
		restarted = nil
	}
	counted, full := f.collect(page)
	if err := change(page); err != nil {
		return restarted, err
	}
	if err := ctx.Err(); err != nil {
		return restarted, err
	}
	if err := write(f.Path, page.Text()); err != nil {
		return restarted, err
	}
	for _, name := range counted {
		full = hint.Join(full, state.Remove(name))
	}
	return restarted, full
}

// read reads the page, or is a new one with the reason.
func (f File) read() (*Page, error) {
	// Whoever may write in the folder must not make this wait, or read elsewhere.
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return New(), err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return New(), fmt.Errorf("%w: %s is no file of less than %d bytes", errDamaged, f.Path, most)
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return New(), err
	}
	page, err := parse(text)
	if err != nil {
		return New(), fmt.Errorf("read %s: %w", f.Path, err)
	}
	return page, nil
}

// RunningBeside returns the file for jobs that run beside the one that runs write: gresnet-running.prom
// beside gresnet.prom.
func RunningBeside(path string) string { return strings.TrimSuffix(path, whole) + "-running" + whole }

// Replace writes a page into a file of its own.
func Replace(path string, p *Page) error { return write(path, p.Text()) }

// write replaces a file by rename, under a name until then that node_exporter does not read: it does not end in
// .prom.
func write(path string, text []byte) error {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := state.Replace(path, next, text); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}
