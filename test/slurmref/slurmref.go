// Package slurmref asks the Slurms of Debian's releases how they read their files. It calls the parser
// in their library, by a program in C that is run by the release's own loader.
package slurmref

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Suites returns the releases to ask: Debian 12, or those of GRESNET_SLURMS.
func Suites() []string {
	if said := strings.Fields(os.Getenv("GRESNET_SLURMS")); len(said) > 0 {
		return said
	}
	return []string{"bookworm"}
}

// Ref is a Slurm that answers.
type Ref struct {
	t    *testing.T
	ask  io.Writer
	tell *bufio.Reader
}

// Root returns the folder of a release's Slurm. It is made if it is missing.
func Root(t *testing.T, suite string) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("../../.cache/slurm", suite))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		cmd := exec.Command("./make-root", suite, folder)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // else tests that take so long would seem to hang
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Start starts a release's Slurm.
func Start(t *testing.T, suite string) *Ref {
	t.Helper()
	root := Root(t, suite)
	run(t, "../need", "gcc", "libc6-dev")
	program := filepath.Join(t.TempDir(), "ref")
	// by these two names Slurm's library finds this program's
	run(t, "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-Wl,--export-dynamic-symbol=sleep", "-Wl,--export-dynamic-symbol=error",
		"-o", program, "c/ref.c")
	lib := root + "/usr/lib/x86_64-linux-gnu"
	loader := lib + "/ld-linux-x86-64.so.2"
	if _, err := os.Stat(loader); err != nil {
		loader = root + "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" // before /usr was merged
	}
	cmd := exec.Command(loader, "--library-path", lib+":"+root+"/lib/x86_64-linux-gnu:"+lib+"/slurm-wlm", program, lib+"/slurm-wlm/libslurmfull.so")
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("Slurm of %s: %v", suite, err)
		}
	})
	return &Ref{t, in, bufio.NewReaderSize(out, 1<<20)}
}

func run(t *testing.T, program string, arguments ...string) {
	t.Helper()
	if out, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// answer asks, and returns the answer's lines. ok says that Slurm does not refuse what it is asked.
func (r *Ref) answer(what string, words ...string) (lines []string, ok bool) {
	r.t.Helper()
	question := what
	for _, w := range words {
		question += " " + hex.EncodeToString([]byte(w))
	}
	if _, err := fmt.Fprintln(r.ask, question); err != nil {
		r.t.Fatal(err)
	}
	for {
		line, err := r.tell.ReadString('\n')
		if err != nil {
			r.t.Fatalf("Slurm ends when it is asked %s %q: %v", what, words, err)
		}
		switch line = strings.TrimSuffix(line, "\n"); line {
		case "ok", "refused":
			return lines, line == "ok"
		}
		lines = append(lines, line)
	}
}

func (r *Ref) unhex(text string) string {
	plain, err := hex.DecodeString(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(plain)
}

// Conf returns what Slurm reads in a file: "+ key=value" for the first pair of a line, "- key=value" for more.
func (r *Ref) Conf(file string) (pairs []string, ok bool) {
	lines, ok := r.answer("conf", file)
	for _, line := range lines {
		fields := strings.Split(line, " ")
		pairs = append(pairs, fields[0]+" "+strings.ToLower(r.unhex(fields[1]))+"="+r.unhex(fields[2]))
	}
	return pairs, ok
}

// Slurm returns what slurmd takes of a slurm.conf for Prolog and Epilog, in its order. It has no such file if
// ok is false.
func (r *Ref) Slurm(file string) (scripts map[string][]string, ok bool) {
	lines, ok := r.answer("slurm", file)
	scripts = map[string][]string{}
	for _, line := range lines {
		fields := strings.Split(line, " ")
		key := strings.ToLower(r.unhex(fields[1]))
		scripts[key] = append(scripts[key], r.unhex(fields[2]))
	}
	return scripts, ok
}

// Hosts returns the names of a hostlist.
func (r *Ref) Hosts(list string) (names []string, ok bool) {
	lines, ok := r.answer("hosts", list)
	for _, line := range lines {
		names = append(names, r.unhex(line))
	}
	return names, ok
}
