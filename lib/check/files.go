package check

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"gresnet/lib/sysfs"
)

// What the relay for PMIx takes of slurmstepd's descriptors (spank/pmix.c): three for
// each connection, one for each task and some to spare, besides those that are open.
const (
	connectionsSpare = 16
	descriptorsSpare = 64
)

// opened is what slurmstepd has open itself: pipes to a task's standard streams, and others.
const (
	openedPerTask = 3
	openedAtLeast = 32
)

// files warns of a slurmd whose slurmstepds may not open what the relay for PMIx needs
// with a task on each CPU. slurmstepd has slurmd's limits, and the relay raises the soft one.
func (s Site) files() []Finding {
	const about = "slurmd"
	sys, err := fs.Sub(s.Root, "sys")
	if err != nil {
		return nil
	}
	tasks, err := sysfs.CPUs(sys)
	if err != nil {
		return nil
	}
	needs := uint64(3*(tasks+connectionsSpare) + descriptorsSpare + openedPerTask*tasks + openedAtLeast)
	for _, dir := range s.slurmds() {
		if may, known := s.mayOpen(dir); known && may < needs {
			return []Finding{warn(about, "GN070 raise LimitNOFILE of its unit", "its slurmstepds may open %d files, and relaying PMIx to a task on each of %d CPUs takes %d", may, tasks, needs)}
		}
	}
	return nil
}

// slurmds are the folders of /proc of those that run. Anybody can call a process slurmd:
// Slurm's is root's, and its program has that name, too.
func (s Site) slurmds() (dirs []string) {
	names, err := fs.Glob(s.Root, "proc/[0-9]*/comm")
	if err != nil {
		return nil
	}
	for _, name := range names {
		comm, err := fs.ReadFile(s.Root, name)
		if dir := path.Dir(name); err == nil && string(bytes.TrimSpace(comm)) == "slurmd" && s.isSlurmd(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (s Site) isSlurmd(dir string) bool {
	status, err := fs.ReadFile(s.Root, path.Join(dir, "status"))
	if err != nil || !bytes.Contains(status, []byte("\nUid:\t0\t0\t")) {
		return false
	}
	exe, err := fs.ReadLink(s.Root, path.Join(dir, "exe"))
	if errors.Is(err, fs.ErrPermission) {
		return true // who is not root is not told; that it is root's is known
	}
	return err == nil && strings.TrimSuffix(path.Base(exe), " (deleted)") == "slurmd"
}

// mayOpen is a process's hard limit of open files, if it has one.
func (s Site) mayOpen(dir string) (most uint64, known bool) {
	text, err := fs.ReadFile(s.Root, path.Join(dir, "limits"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if values, is := strings.CutPrefix(line, "Max open files"); is {
			fields := strings.Fields(values) // soft, hard, unit
			if len(fields) < 2 {
				return 0, false
			}
			most, err := strconv.ParseUint(fields[1], 10, 64)
			return most, err == nil // or it is unlimited
		}
	}
	return 0, false
}
