package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// Lock is a held lock. The kernel releases it when its holder dies.
type Lock struct {
	*os.File
}

// LockJob takes a job's lock in dir. Only its holder may touch the job's lease. LockJob waits for
// another holder until the context ends.
func LockJob(ctx context.Context, dir string, id uint32) (*Lock, error) {
	path := filepath.Join(dir, fmt.Sprintf("job-%d", id))
	for {
		f, err := take(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("lock job %d: %w", id, err)
		}
		// If the last holder removed the file between our open and our lock, nobody else will
		// ever open the file that we locked.
		if current(f.File, path) {
			return f, nil
		}
		f.Close()
	}
}

// ErrHeld means that another process holds the lock, and that the caller does not wait.
var ErrHeld = errors.New("another process holds the lock")

// TryLockJob takes a job's lock if nobody holds it. Otherwise it returns ErrHeld.
func TryLockJob(dir string, id uint32) (*Lock, error) {
	f, err := LockJob(over(), dir, id)
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("lock job %d: %w", id, ErrHeld)
	}
	return f, err
}

// over returns a context that has ended, so that no call waits.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TryLockLook takes the lock of looks at what an HCA counts, in dir, if nobody holds it. Otherwise it returns
// ErrHeld: an earlier look has been left behind and stands still in the kernel. No prolog and no epilog
// wants this lock.
func TryLockLook(dir string, id node.ID) (*Lock, error) {
	f, err := take(over(), filepath.Join(dir, "look-"+fileName(id)))
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("look at HCA %s: %w", id, ErrHeld)
	}
	return f, err
}

// LockFile locks a file that serves no other purpose and is never removed.
func LockFile(ctx context.Context, path string) (*Lock, error) { return take(ctx, path) }

// LockHCA takes the lock of an HCA's moves in dir. An abandoned move, which may still land at any
// time, keeps holding it.
func LockHCA(ctx context.Context, dir string, id node.ID) (*Lock, error) {
	f, err := take(ctx, hcaFile(dir, id))
	if err != nil {
		return nil, fmt.Errorf("lock HCA %s: %w", id, err)
	}
	return f, nil
}

// LetGo releases a lock that another process is to take by the same open file.
func (f *Lock) LetGo() error { return flock(f.File, unix.LOCK_UN) }

// IsMoving tells whether a move of an HCA has not ended, and so holds its lock.
func IsMoving(dir string, id node.ID) bool { return IsLocked(hcaFile(dir, id)) }

// IsLocked tells whether somebody holds the lock of a file. Without permission to look nobody does.
func IsLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // nobody ever took it, or we have no permission
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func hcaFile(dir string, id node.ID) string {
	return filepath.Join(dir, "hca-"+fileName(id))
}

func fileName(id node.ID) string { return strings.ReplaceAll(id.String(), "/", "_") }

// Remove releases a job's lock and removes its file, when the job has no lease any more.
func (f *Lock) Remove() error {
	return hint.Join(os.Remove(f.Name()), f.Close())
}

func current(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(held, there)
}

// take opens and flocks a file. Waiters sleep in the kernel, which wakes them when the lock is
// free: dozens of polling waiters would take the processor from the holder, and a waiter that
// polls seldom would never find the lock free.
func take(ctx context.Context, path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return await(ctx, f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{f}, nil
}

// await waits for a lock until the context ends. flock has no time limit: a thread that waits in
// vain ends with the process.
func await(ctx context.Context, f *os.File) (*Lock, error) {
	if ctx.Err() != nil {
		f.Close()
		return nil, held(ctx, f)
	}
	locked := make(chan error, 1)
	go func() { locked <- flock(f, unix.LOCK_EX) }()
	select {
	case err := <-locked:
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return &Lock{f}, nil
	case <-ctx.Done():
		go func() {
			<-locked
			f.Close()
		}()
		return nil, held(ctx, f)
	}
}

func held(ctx context.Context, f *os.File) error {
	err := fmt.Errorf("lock %s: another process holds it: %w", f.Name(), ctx.Err())
	return hint.With(err, "GN214 see which one, and what it waits for: fuser -v "+f.Name())
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
