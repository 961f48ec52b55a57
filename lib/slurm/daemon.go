package slurm

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Daemons returns the folders in /proc of the slurmds that run. Anybody can call a process slurmd:
// Slurm's is root's, and its program has that name, or one that begins so.
func Daemons(root fs.FS) (dirs []string) {
	names, err := fs.Glob(root, "proc/[0-9]*/comm")
	if err != nil {
		return nil
	}
	for _, name := range names {
		comm, err := fs.ReadFile(root, name)
		if dir := path.Dir(name); err == nil && string(bytes.TrimSpace(comm)) == "slurmd" && isSlurmd(root, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isSlurmd(root fs.FS, dir string) bool {
	status, err := fs.ReadFile(root, path.Join(dir, "status"))
	if err != nil || !bytes.Contains(status, []byte("\nUid:\t0\t0\t")) {
		return false
	}
	exe, err := fs.ReadLink(root, path.Join(dir, "exe"))
	if errors.Is(err, fs.ErrPermission) {
		return true // who is not root is not told; that it is root's is known
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(path.Base(exe), " (deleted)"), "-") // Debian's is slurmd-wlm
	return err == nil && name == "slurmd"
}

// HardLimit returns a hard limit of a process, by its folder in /proc and the limit's name there.
// limited is false if it has none, or it is not known.
func HardLimit(root fs.FS, dir, name string) (most uint64, limited bool) {
	text, err := fs.ReadFile(root, path.Join(dir, "limits"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if values, is := strings.CutPrefix(line, name); is {
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
