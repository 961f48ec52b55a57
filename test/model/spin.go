package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// result is what spin found.
type result struct {
	states int
	memory int64 // bytes
	took   time.Duration
	fault  string   // the property that fails, nothing if none does
	full   bool     // all states were explored
	trace  []string // what leads to the fault, a line for each step that tells of itself
}

// verdict says for people how a run ended, and whether it had to end so.
func (f result) verdict(r run) (text string, right bool) {
	switch {
	case f.fault == "" && !f.full:
		return "not all states were explored", false
	case f.fault == "" && r.mutation:
		return "no fault: this invariant is not needed", false
	case f.fault == "":
		return "no fault", true
	}
	return fmt.Sprintf("fault after %d steps", len(f.trace)), r.mutation
}

// check has spin explore a run. A mutation's states are explored in breadth, so that the first
// fault is one that the fewest steps lead to.
func (r run) check(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "gresnet-model-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(r.model + ".pml")
	if err != nil {
		return result{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "m.pml"), text, 0o600); err != nil {
		return result{}, err
	}
	if _, _, err := command(ctx, dir, "spin", append([]string{"-a"}, append(r.flags(), "m.pml")...)...); err != nil {
		return result{}, err
	}
	compile := []string{"-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=1024", "-DMEMLIM=8000", "-o", "pan", "pan.c"}
	if r.mutation {
		compile = append([]string{"-DBFS"}, compile...)
	}
	if _, _, err := command(ctx, dir, "gcc", compile...); err != nil {
		return result{}, err
	}
	begun := time.Now()
	out, usage, err := command(ctx, dir, "./pan", "-m100000", "-w24", "-n")
	if err != nil {
		return result{}, err
	}
	f := parse(out)
	f.took, f.memory = time.Since(begun), usage.Maxrss<<10
	if f.fault != "" {
		f.trace, err = r.trace(ctx, dir)
	}
	return f, err
}

// flags returns the defines as spin takes them.
func (r run) flags() (flags []string) {
	for _, d := range r.defines {
		flags = append(flags, "-D"+d)
	}
	return flags
}

var (
	statesLine = regexp.MustCompile(`(\d+) states, stored`)
	faultLine  = regexp.MustCompile(`(?m)^pan:\d+: (.*) \(at depth`)
	fullLine   = regexp.MustCompile(`errors: 0\b`)
)

// parse reads what a verifier prints.
func parse(out string) (f result) {
	if m := statesLine.FindStringSubmatch(out); m != nil {
		f.states, _ = strconv.Atoi(m[1])
	}
	if m := faultLine.FindStringSubmatch(out); m != nil {
		f.fault = m[1]
	}
	f.full = fullLine.MatchString(out) && !strings.Contains(out, "max search depth too small") && !strings.Contains(out, "Search not completed")
	return f
}

// trace replays what leads to a fault.
func (r run) trace(ctx context.Context, dir string) (steps []string, err error) {
	out, _, err := command(ctx, dir, "spin", append([]string{"-t"}, append(r.flags(), "m.pml")...)...)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(out, "\n") {
		line = strings.Join(strings.Fields(line), " ")
		if strings.HasPrefix(line, "#processes") {
			break
		}
		if line != "" && !strings.HasPrefix(line, "spin:") {
			steps = append(steps, told(line))
		}
	}
	return steps, nil
}

var step = regexp.MustCompile(`^([1-4]) (\d) (\d) (.*)`)

// told says who takes a step: the models print a program's kind, its job and its run.
func told(line string) string {
	m := step.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	job := "job " + m[2]
	if m[3] == "2" {
		job += ", run 2"
	}
	if strings.HasPrefix(m[4], "its steps") {
		return job + ": " + m[4]
	}
	return []string{"prolog", "epilog", "cleanup", "release"}[m[1][0]-'1'] + " of " + job + ": " + m[4]
}

// command runs a program in a folder.
func command(ctx context.Context, dir, name string, arguments ...string) (string, *syscall.Rusage, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && name == "spin" && arguments[0] == "-t" {
		err = nil // it ends a trail that leads to a fault so
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return string(out), cmd.ProcessState.SysUsage().(*syscall.Rusage), nil
}
