package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// peaks has a line for each program that was weighed: its most memory in KiB.
const peaks = "/run/bench-peaks"

// peakCommand runs a program and notes its most memory. A program begins with that of
// its parent (fs/exec.c:begin_new_exec), so the parent must be a small one.
func peakCommand(args []string) error {
	f := flag.NewFlagSet("peak", flag.ContinueOnError)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return errors.New("usage:\n" + usage)
	}
	cmd := exec.Command(f.Arg(0), f.Args()[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd.Args, err)
	}
	file, err := os.OpenFile(peaks, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	return err
}

// weighed returns a tool whose programs are weighed.
func (t tool) weighed() tool {
	if !t.weigh {
		return t
	}
	under := func(programs func(int, []hca) []*exec.Cmd) func(int, []hca) []*exec.Cmd {
		return func(job int, list []hca) []*exec.Cmd {
			all := programs(job, list)
			for _, cmd := range all {
				cmd.Args = append([]string{"bench", "peak", cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/proc/self/exe"
			}
			return all
		}
	}
	t.in, t.out = under(t.in), under(t.out)
	return t
}

// heaviest returns the most of what was weighed since it was last asked for, in KiB.
func heaviest() (most int64, err error) {
	text, err := os.ReadFile(peaks)
	if err != nil {
		return 0, err
	}
	for r := bytes.NewReader(text); ; {
		var kib int64
		if _, err := fmt.Fscan(r, &kib); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, fmt.Errorf("read %s: %w", peaks, err)
		}
		most = max(most, kib)
	}
	if err := os.Remove(peaks); err != nil {
		return 0, err
	}
	return most, nil
}
