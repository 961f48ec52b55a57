package program_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/kernel/program"
	"gresnet/test/await"
)

// TestMain lets the test binary stand in for a prolog that runs a program and is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("GRESNET_RUN_ALONE"); path != "" {
		_, _ = program.Program{Path: path, Alone: true}.Run(context.Background())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// pipe returns a named pipe, and a function that waits until all who write to it have ended. If nobody
// ever wrote, that function returns "".
func pipe(t *testing.T) (path string, ended func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
		}
		defer f.Close()
		text, _ := io.ReadAll(f)
		said <- string(text)
	}()
	return path, func() (text string) {
		await.Until(t, "all who write to the pipe have ended", func() bool {
			// A reader waits for the first writer. If there was none, this is the one.
			if f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				f.Close()
			}
			select {
			case text = <-said:
				return true
			default:
				return false
			}
		})
		return text
	}
}

// A daemon, in a session of its own and nobody's child any more. The script goes on when the daemon has
// the pipe open and has written to it.
func daemon(pipe string) string {
	return "setsid sh -c '(echo up; touch " + pipe + ".up; exec sleep infinity) >" + pipe + " 2>&1 &' </dev/null >/dev/null 2>&1\nwhile ! [ -e " + pipe + ".up ]; do sleep 0.01; done\n"
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// late is a context whose deadline passes when done is closed.
type late struct {
	context.Context
	done chan struct{}
}

func (l late) Done() <-chan struct{} { return l.done }

func (l late) Err() error {
	select {
	case <-l.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestNothingThatAnAloneProgramStartedOutlivesIt(t *testing.T) {
	for name, c := range map[string]struct {
		then string
		late bool
		is   func(error) bool
	}{
		"it ends":        {"exit 0", false, func(err error) bool { return err == nil }},
		"it fails":       {"echo broken >&2; exit 3", false, func(err error) bool { return strings.Contains(err.Error(), `exit status 3: it says "broken"`) }},
		"its time ends":  {"sleep infinity", true, func(err error) bool { return errors.Is(err, program.ErrLate) }},
		"it blocks TERM": {"trap '' TERM HUP INT; while :; do sleep 1; done", true, func(err error) bool { return errors.Is(err, program.ErrLate) }},
	} {
		path, ended := pipe(t)
		ctx := late{t.Context(), make(chan struct{})}
		go func() {
			for end := time.Now().Add(await.Most(t)); time.Now().Before(end) && !(c.late && isThere(path+".up")); {
				time.Sleep(10 * time.Millisecond)
			}
			close(ctx.done)
		}()
		_, err := program.Program{Path: script(t, daemon(path)+c.then), Max: 100, Alone: true}.Run(ctx)
		if !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
		if said := ended(); said != "up\n" {
			t.Errorf("%s: the daemon says %q", name, said)
		}
	}
}

func TestAnAloneProgramEndsWithAPrologThatIsKilled(t *testing.T) {
	path, ended := pipe(t)
	up := path + ".up"
	prolog := exec.Command(os.Args[0])
	prolog.Env = append(os.Environ(), "GRESNET_RUN_ALONE="+script(t, daemon(path)+"sleep infinity"))
	if err := prolog.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prolog.Process.Kill() })
	await.Until(t, "the daemon runs", func() bool { return isThere(up) })
	if err := prolog.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = prolog.Wait()
	if said := ended(); said != "up\n" {
		t.Errorf("the daemon says %q", said)
	}
}

func TestAProgramHasNothingOfOursButItsEnvironment(t *testing.T) {
	t.Setenv("LD_PRELOAD", "")
	t.Setenv("GRESNET_SECRET", "of ours")
	const inherited = 200 // as slurmd may leave one: exec keeps it
	if err := syscall.Dup3(1, inherited, 0); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	for _, alone := range []bool{false, true} {
		out, err := program.Program{Path: script(t, "/usr/bin/env; echo; ls /proc/self/fd"), Env: []string{"A=b", "PATH=/usr/bin:/bin"}, Max: 4096, Alone: alone}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		env, rest, _ := strings.Cut(out, "\n\n")
		lines := strings.Split(env, "\n")
		slices.Sort(lines)
		if got := strings.Join(lines, " "); got != "A=b LC_ALL=C PATH=/usr/bin:/bin PWD=/" {
			t.Errorf("alone %v: the environment is %q", alone, got)
		}
		if fds := strings.Join(strings.Fields(rest), " "); fds != "0 1 2 3" { // 3 is the folder that ls reads
			t.Errorf("alone %v: the descriptors %s are open", alone, fds)
		}
	}
}

func TestWhatAnAloneProgramPrintsIsCutAndNoError(t *testing.T) {
	out, err := program.Program{Path: script(t, "yes | head -c 1000000; echo no >&2"), Max: 100, Alone: true}.Run(t.Context())
	if err != nil || len(out) != 100 {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
	_, err = program.Program{Path: script(t, "yes | head -c 1000000"), Max: 100}.Run(t.Context())
	if !errors.Is(err, program.ErrLong) {
		t.Errorf("one that answers: %v", err)
	}
}
