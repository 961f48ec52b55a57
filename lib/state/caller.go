package state

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

// String returns the caller as a record has it: one word.
func (c Caller) String() string {
	switch {
	case c.Slurmd && c.Script == "":
		return "slurmd"
	case c.Slurmd:
		return "slurmd:" + word(c.Script)
	}
	return "other:" + word(c.Other)
}

// word makes one word of a name.
func word(s string) string { return strings.NewReplacer(" ", "?", "=", "?").Replace(s) }

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
		comm, err := os.ReadFile(fmt.Sprintf("%s/%d/comm", proc, pid))
		if err != nil {
			break
		}
		name := strings.TrimSpace(string(comm))
		if first == "" {
			first = name
		}
		if strings.HasPrefix(name, "slurmd") || strings.HasPrefix(name, "slurmstepd") {
			return Caller{Slurmd: true, Script: scriptOf(proc, below)}
		}
		below = pid
		if pid, err = parentOf(proc, pid); err != nil {
			break
		}
	}
	return Caller{Other: first}
}

// parentOf returns a process's parent.
func parentOf(proc string, pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", proc, pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may have blanks
	if len(fields) < 2 {
		return 0, fmt.Errorf("parse the state of process %d", pid)
	}
	return strconv.Atoi(fields[1])
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
