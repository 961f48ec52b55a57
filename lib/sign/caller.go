package sign

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Caller is who started a run.
type Caller struct {
	Slurmd bool   // slurmd did
	Script string // what slurmd started instead, which then started this; empty: slurmd itself has the exit code
	Other  string // who did, where that was not slurmd
}

// String returns the caller as a sign has it: one word.
func (c Caller) String() string {
	word := func(s string) string { return strings.NewReplacer(" ", "?", "=", "?").Replace(s) }
	switch {
	case c.Slurmd && c.Script == "":
		return "slurmd"
	case c.Slurmd:
		return "slurmd:" + word(c.Script)
	}
	return "other:" + word(c.Other)
}

func parseCaller(text string) Caller {
	who, name, _ := strings.Cut(text, ":")
	if who == "slurmd" {
		return Caller{Slurmd: true, Script: name}
	}
	return Caller{Other: name}
}

// maxParents bounds the search for slurmd among the ancestors.
const maxParents = 12

// FindCaller looks among the ancestors of this process for slurmd, or for slurmstepd, which runs
// prologs where PrologFlags has RunInJob.
func FindCaller() Caller { return findCaller("/proc", os.Getppid()) }

func findCaller(proc string, parent int) Caller {
	below := 0
	first := ""
	for pid, n := parent, 0; pid > 1 && n < maxParents; n++ {
		name, next, err := parentOf(proc, pid)
		if err != nil {
			break
		}
		if first == "" {
			first = name
		}
		if strings.HasPrefix(name, "slurmd") || strings.HasPrefix(name, "slurmstepd") {
			return Caller{Slurmd: true, Script: scriptOf(proc, below)}
		}
		below, pid = pid, next
	}
	return Caller{Other: first}
}

// parentOf returns a process's name and its parent.
func parentOf(proc string, pid int) (name string, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", proc, pid))
	if err != nil {
		return "", 0, err
	}
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return "", 0, fmt.Errorf("parse the state of process %d", pid)
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 2 {
		return "", 0, fmt.Errorf("parse the state of process %d", pid)
	}
	parent, err = strconv.Atoi(fields[1])
	return string(text[begin+1 : end]), parent, err
}

// scriptOf returns the script that a process runs: slurmd gives it no arguments, so its path comes
// last.
func scriptOf(proc string, pid int) string {
	if pid == 0 {
		return ""
	}
	const least = "a script"
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/cmdline", proc, pid))
	args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	if script := args[len(args)-1]; err == nil && script != "" {
		return script
	}
	return least
}
