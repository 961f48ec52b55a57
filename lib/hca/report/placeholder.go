package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/slurm"
)

// PlaceholderDir is where gres.conf's placeholder files are, unless a site says otherwise.
const PlaceholderDir = "/var/lib/gresnet/gres"

// Placeholders returns the names of the files that give each HCA an index that
// Slurm keeps, in Slurm's order: gres.conf numbers a GRES name's files as they come.
func (s Scan) Placeholders(names []string) ([]string, error) {
	var files []string
	counts := map[string]int{}
	for _, h := range s.mapped(names) {
		if h.Number() != counts[h.Gres] {
			err := fmt.Errorf("number %s for gres.conf: the mapping has %s %d and no %s %d", h.Gres, h.Gres, h.Number(), h.Gres, counts[h.Gres])
			return nil, hint.With(err, "GN202 Slurm numbers a GRES from 0 on without gaps: let the [[hca]] entries do so, too")
		}
		counts[h.Gres]++
		files = append(files, fmt.Sprintf("%s%d", h.Gres, h.Number()))
	}
	return files, nil
}

// NamedPlaceholders returns the files in PlaceholderDir that the node's gres.conf names. known tells
// whether there is a gres.conf: that of a configless slurmd is not there before slurmd is.
func NamedPlaceholders(root fs.FS) (files []string, known bool) {
	for _, conf := range slurm.Places() {
		lines, err := slurm.Read(root, path.Join(path.Dir(conf), "gres.conf"))
		if err == nil {
			return lines.FilesIn(PlaceholderDir), true
		}
	}
	return nil, false
}

// placeholderMajor is the number of no driver: Linux registers none from 512 on. So Slurm has a device that it may
// deny to jobs, and no device is denied.
const placeholderMajor = 4095

// Placeholder returns the device number of all placeholder files. slurmstepd takes a GRES whose files are no
// device nodes for a fault, and says so in each step (Slurm src/interfaces/gres.c:gres_g_get_devices).
func Placeholder() uint64 { return unix.Mkdev(placeholderMajor, 0) }

// MakePlaceholder makes one placeholder file.
func MakePlaceholder(file string) error {
	const mode = 0o600
	if err := unix.Mknod(file, unix.S_IFCHR|mode, int(Placeholder())); err != nil {
		return &fs.PathError{Op: "mknod", Path: file, Err: err}
	}
	return nil
}

// MakePlaceholders makes the files that are not there. slurmd does not start without them, and
// opens none of them.
func MakePlaceholders(dir string, files []string) error {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range files {
		if err := MakePlaceholder(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
