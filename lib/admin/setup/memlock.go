package setup

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"gresnet/lib/hca/report"
	"gresnet/lib/slurm"
)

// How much memory tasks may lock: RDMA programs lock what they register with an HCA, and with a common limit
// of 8 MiB most of them fail.
//
// A task has the soft limit of whoever submitted its job, if Slurm propagates it, and never more than
// slurmd has, which has it from its unit (Slurm src/slurmd/slurmstepd/ulimits.c).

// others are all limits that Slurm knows, but this one (src/common/slurm_rlimits_info.c).
const others = "AS,CORE,CPU,DATA,FSIZE,NOFILE,NPROC,RSS,STACK"

// memlock has tasks lock as much memory as slurmd may, whoever submits their job.
func (p *planner) memlock(t *text) {
	if !propagated(t.lines()) {
		return
	}
	p.found(report.Warn("memlock", "GN546 gresnet setup, or set PropagateResourceLimitsExcept=MEMLOCK",
		"slurm.conf has tasks lock as much memory as whoever submits their job: RDMA programs fail if that is 8 MiB, as systemd has it"))
	except, only := t.keys(memlockExcept), t.keys(memlockOnly)
	replace := func(lines []slurm.Line, value string) { t.replace(lines[len(lines)-1], last(lines), value) }
	switch {
	case len(except) > 0 && last(except).Value == "NONE":
		replace(except, memlockName)
	case len(except) > 0:
		t.list(memlockExcept, memlockName)
	case len(only) == 0:
		t.add(memlockExcept + "=" + memlockName)
	case last(only).Value == "ALL":
		replace(only, others)
	default:
		rest := slices.DeleteFunc(limitsIn(last(only).Value), func(w string) bool { return w == memlockName })
		if len(rest) == 0 {
			rest = []string{"NONE"}
		}
		replace(only, strings.Join(rest, ","))
	}
}

// unit has slurmd lock as much memory as there is. told is true if a slurmd that may lock less was told of.
func (p *planner) unit(told bool) {
	value, is := ofUnit(p.Root)
	if !is || value == "infinity" || strings.HasPrefix(value, "infinity:") && strings.HasSuffix(value, ":infinity") {
		return
	}
	t, understood := p.open(dropIn)
	if !understood {
		return
	}
	if !told {
		p.found(report.Warn("memlock", "GN896 gresnet setup, or set LimitMEMLOCK=infinity in it",
			"slurmd's unit does not say LimitMEMLOCK=infinity: RDMA programs may fail to register what they need"))
	}
	t.content = dropInText
	p.change()
}

// Keys of slurm.conf that say which limits tasks have from whoever submits. Slurm takes the second of both.
const (
	memlockOnly   = "PropagateResourceLimits"
	memlockExcept = "PropagateResourceLimitsExcept"

	memlockName = "MEMLOCK"
)

// daemon tells of a slurmd that may lock less than all of the node's memory, and so its tasks.
func (p *planner) daemon() (limited bool) {
	for _, dir := range slurm.Daemons(p.Root) {
		if most, limited := slurm.HardLimit(p.Root, dir, "Max locked memory"); limited {
			p.found(report.Warn("memlock", "GN545 gresnet setup, or set LimitMEMLOCK=infinity in its unit; then restart it",
				"its tasks may lock %d bytes of memory: RDMA programs fail to register what they need", most))
			return true
		}
	}
	return false
}

// propagated tells whether tasks have the limit of whoever submits their job
// (src/common/slurm_rlimits_info.c:parse_rlimits).
func propagated(conf slurm.Conf) bool {
	if except := conf.Last(strings.ToLower(memlockExcept)); except != "" {
		return !names(except)
	}
	only := conf.Last(strings.ToLower(memlockOnly))
	return only == "" || names(only)
}

// names tells whether a list has the limit.
func names(list string) bool {
	return list == "ALL" || slices.Contains(limitsIn(list), memlockName)
}

// limitsIn returns the names of limits in a list.
func limitsIn(list string) (words []string) {
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }) {
		words = append(words, strings.TrimPrefix(word, "RLIMIT_"))
	}
	return words
}

const unit = "slurmd.service"

// dropIn is the file that setup has slurmd's unit read. Its name comes after a site's.
const dropIn = "/etc/systemd/system/" + unit + ".d/zz-gresnet.conf"

// dropInText is what it says.
const dropInText = "# gresnet setup made this file: RDMA programs lock the memory that an HCA reads and writes\n[Service]\nLimitMEMLOCK=infinity\n"

// Settings returns the files of a pattern in the order in which the node's programs read them: by their names,
// whatever folder they are in. One in an earlier folder hides those of its name in later ones (modprobe.d(5),
// systemd.unit(5)).
func Settings(root fs.FS, dirs []string, pattern string) (list []string) {
	files := map[string]string{}
	for _, dir := range dirs {
		names, err := fs.Glob(root, path.Join(dir, pattern))
		if err != nil {
			continue
		}
		for _, name := range names {
			if _, hidden := files[path.Base(name)]; !hidden {
				files[path.Base(name)] = name
			}
		}
	}
	for _, base := range slices.Sorted(maps.Keys(files)) {
		list = append(list, files[base])
	}
	return list
}

// ofUnit returns what slurmd's unit says of the limit, with all of its drop-ins. is is false if there is no
// such unit.
func ofUnit(root fs.FS) (value string, is bool) {
	dirs := []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
	text := ""
	for _, dir := range dirs {
		if data, err := fs.ReadFile(root, path.Join(dir, unit)); err == nil {
			text, is = string(data), true
			break
		}
	}
	for _, name := range Settings(root, dirs, unit+".d/*.conf") {
		if data, err := fs.ReadFile(root, name); err == nil {
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
