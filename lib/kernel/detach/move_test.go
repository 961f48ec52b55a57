package detach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/test/await"
)

// kernel answers requests for moves.
type kernel struct {
	t      *testing.T
	socket int
	locks  []string
	moves  *Moves
}

// begin starts so many moves, whose requests are their numbers.
func begin(t *testing.T, count int) *kernel {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	k := &kernel{t: t, socket: pair[1]}
	t.Cleanup(func() { unix.Close(pair[1]) })
	var orders []Order
	for i := range count {
		path := filepath.Join(t.TempDir(), "lock")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		k.locks = append(k.locks, path)
		orders = append(orders, Order{Request: []byte{byte(i)}, Lock: f})
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if k.moves, err = StartMoves(pair[0], int(null.Fd()), orders); err != nil {
		t.Fatal(err)
	}
	return k
}

// carryOut takes the request that comes next, and answers it with an errno.
func (k *kernel) carryOut(want int, errno unix.Errno) {
	k.t.Helper()
	k.await(want)
	k.answer(errno)
}

func (k *kernel) await(want int) {
	k.t.Helper()
	var request [16]byte
	if n, err := unix.Read(k.socket, request[:]); n != 1 || int(request[0]) != want || err != nil {
		k.t.Fatalf("request %d of %d bytes, %v, wanted %d", request[0], n, err, want)
	}
}

func (k *kernel) answer(errno unix.Errno) {
	k.t.Helper()
	m := make([]byte, 36)
	binary.NativeEndian.PutUint32(m[16:], uint32(-int32(errno)))
	if _, err := unix.Write(k.socket, m); err != nil {
		k.t.Fatal(err)
	}
}

// ends wants the process to end without another request.
func (k *kernel) ends() {
	k.t.Helper()
	if n, err := unix.Read(k.socket, make([]byte, 16)); n != 0 || err != nil {
		k.t.Errorf("the process goes on: %d bytes, %v", n, err)
	}
}

// locked says which locks are held.
func (k *kernel) locked() (held string) {
	for i, path := range k.locks {
		f, err := os.Open(path)
		if err != nil {
			k.t.Fatal(err)
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			held += fmt.Sprint(i)
		}
		f.Close()
	}
	return held
}

func soon() time.Time { return time.Now().Add(time.Minute) }

func TestMovesAreOneAfterTheOtherAndEachHasItsLockMeanwhile(t *testing.T) {
	k := begin(t, 3)
	for i := range 3 {
		k.await(i)
		if held, want := k.locked(), fmt.Sprint(i); held != want {
			t.Errorf("during move %d the locks %q are held", i, held)
		}
		k.answer(0)
		deadline := soon()
		if i == 2 { // however late one asks
			k.ends()
			deadline = time.Now().Add(-time.Hour)
		}
		if err := k.moves.Next(deadline); err != nil {
			t.Errorf("move %d: %v", i, err)
		}
	}
	if held := k.locked(); held != "" {
		t.Errorf("after all moves the locks %q are held", held)
	}
}

func TestNoMoveBeginsAfterOneThatFailed(t *testing.T) {
	k := begin(t, 3)
	k.carryOut(0, 0)
	k.carryOut(1, unix.EBUSY)
	k.ends()
	for i, want := range []error{nil, unix.EBUSY, ErrNotBegun} {
		if err := k.moves.Next(soon()); !errors.Is(err, want) {
			t.Errorf("move %d: %v, wanted %v", i, err, want)
		}
	}
}

func TestAMoveThatHangsKeepsItsLockAndNoOtherBegins(t *testing.T) {
	k := begin(t, 2)
	k.await(0)
	for i, want := range []error{errHangs, ErrNotBegun} {
		if err := k.moves.Next(time.Now().Add(time.Millisecond)); !errors.Is(err, want) {
			t.Errorf("move %d: %v, wanted %v", i, err, want)
		}
	}
	if held := k.locked(); held != "0" {
		t.Errorf("the locks %q are held", held)
	}
	k.answer(0)
	k.ends()
	if held := k.locked(); held != "" {
		t.Errorf("when the move has landed the locks %q are held", held)
	}
}

// An epilog that comes after a prolog that was killed takes the lock of a device, and then looks where that is.
func TestADeviceWhoseLockAnotherHasIsNotMovedAfterTheDeathOfWhoeverWanted(t *testing.T) {
	k := begin(t, 2)
	k.await(0)
	other, err := os.Open(k.locks[1])
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	k.answer(0)
	await.Until(t, "the first move has ended", func() bool { return k.locked() == "1" })
	k.moves.leave()
	other.Close()
	k.ends()
}

func TestOfAProcessThatWasKilledNoMoveIsCarriedOut(t *testing.T) {
	k := begin(t, 2)
	k.await(0)
	if err := unix.Kill(k.moves.process.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		if err := k.moves.Next(soon()); err == nil || errors.Is(err, errHangs) || errors.Is(err, ErrNotBegun) != want {
			t.Errorf("move %d: %v", i, err)
		}
	}
}
