// Package memlock says how much memory tasks may lock. RDMA programs lock what they register with an
// HCA, and with a common limit of 8 MiB most of them fail.
//
// A task has the soft limit of whoever submitted its job, if Slurm propagates it, and never more than
// slurmd has, which has it from its unit (Slurm src/slurmd/slurmstepd/ulimits.c).
package memlock

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/slurm"
	"gresnet/lib/words/hint"
)

// Keys of slurm.conf that say which limits tasks have from whoever submits. Slurm takes the second of both.
const (
	OnlyKey   = "PropagateResourceLimits"
	ExceptKey = "PropagateResourceLimitsExcept"

	Name = "MEMLOCK"
)

// Faults returns why tasks may lock less than all of the node's memory.
func Faults(root fs.FS, conf slurm.Conf) (all []error) {
	for _, dir := range slurm.Daemons(root) {
		if most, limited := slurm.HardLimit(root, dir, "Max locked memory"); limited {
			all = append(all, hint.With(fmt.Errorf("its tasks may lock %d bytes of memory: RDMA programs fail to register what they need", most),
				"GN545 gresnet setup, or set LimitMEMLOCK=infinity in its unit; then restart it"))
			break
		}
	}
	if Propagated(conf) {
		all = append(all, hint.With(fmt.Errorf("slurm.conf has tasks lock as much memory as whoever submits their job: RDMA programs fail if that is 8 MiB, as systemd has it"),
			"GN546 gresnet setup, or set PropagateResourceLimitsExcept=MEMLOCK"))
	}
	return all
}

// Propagated tells whether tasks have the limit of whoever submits their job
// (src/common/slurm_rlimits_info.c:parse_rlimits).
func Propagated(conf slurm.Conf) bool {
	if except := conf.Last(strings.ToLower(ExceptKey)); except != "" {
		return !names(except)
	}
	only := conf.Last(strings.ToLower(OnlyKey))
	return only == "" || names(only)
}

// names tells whether a list has the limit.
func names(list string) bool {
	return list == "ALL" || slices.Contains(Words(list), Name)
}

// Words returns the names of limits in a list.
func Words(list string) (words []string) {
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }) {
		words = append(words, strings.TrimPrefix(word, "RLIMIT_"))
	}
	return words
}

const unit = "slurmd.service"

// DropIn is the file that setup has slurmd's unit read. Its name comes after a site's.
const DropIn = "/etc/systemd/system/" + unit + ".d/zz-gresnet.conf"

// DropInText is what it says.
const DropInText = "# gresnet setup made this file: RDMA programs lock the memory that an HCA reads and writes\n[Service]\nLimitMEMLOCK=infinity\n"

// OfUnit returns what slurmd's unit says of the limit, with all of its drop-ins. is is false if there is no
// such unit.
func OfUnit(root fs.FS) (value string, is bool) {
	dirs := []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
	text := ""
	for _, dir := range dirs {
		if data, err := fs.ReadFile(root, path.Join(dir, unit)); err == nil {
			text, is = string(data), true
			break
		}
	}
	dropIns := map[string]string{} // by name: the first folder's counts
	var order []string
	for _, dir := range dirs {
		found, err := fs.Glob(root, path.Join(dir, unit+".d", "*.conf"))
		if err != nil {
			continue
		}
		for _, file := range found {
			if _, seen := dropIns[path.Base(file)]; !seen {
				dropIns[path.Base(file)] = file
				order = append(order, path.Base(file))
			}
		}
	}
	slices.Sort(order)
	for _, name := range order {
		data, err := fs.ReadFile(root, dropIns[name])
		if err == nil {
			text += "\n" + string(data)
		}
	}
	for line := range strings.Lines(text) {
		if after, has := strings.CutPrefix(strings.ReplaceAll(strings.TrimSpace(line), " ", ""), "LimitMEMLOCK="); has {
			value = after
		}
	}
	return value, is
}
