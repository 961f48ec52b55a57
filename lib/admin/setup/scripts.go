package setup

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"gresnet/lib/hca/report"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
)

// script is a file that slurmd runs, and the line of slurm.conf that names it.
type script struct {
	file string
	line int
}

// scripts finds what keeps the scripts of a key from running gresnet's program, in its place.
func (p *planner) scripts(conf slurm.Conf, dir, key string) []report.Finding {
	program := "gresnet-" + strings.ToLower(key)
	lines := conf.All(strings.ToLower(key))
	if conf.Last(strings.ToLower(key)) == "" {
		return []report.Finding{report.Fail("slurm.conf", "GN111 gresnet setup, or have all nodes have the script of /usr/share/gresnet/"+strings.ToLower(key)+".d, and set "+key+" to it", "it has no %s", key)}
	}
	if version, old := p.takesOne(conf, dir); old && len(lines) > 1 {
		do := fmt.Sprintf("GN112 leave one line: %s=/etc/slurm/%s.d/*, and put all scripts into that folder", key, strings.ToLower(key))
		return []report.Finding{report.Fail("slurm.conf", do, "it has %d lines with %s, and Slurm %s heeds the last one alone", len(lines), key, version)}
	}
	var files []script
	for i, l := range lines {
		names := slurm.Glob(p.Root, l.Keys[0].Value, dir)
		if len(names) == 0 {
			do := fmt.Sprintf("GN113 correct it; gresnet's is %s=/etc/slurm/%s, a script of /usr/share/gresnet", key, program)
			if slurm.IsPattern(l.Keys[0].Value) {
				do = copyOurs(key, l.Keys[0].Value, dir)
			}
			if l.Keys[0].Value == "/usr/sbin/"+program {
				do = "GN114 install package gresnet again: apt install --reinstall ./gresnet_*.deb, or dnf reinstall ./gresnet-[0-9]*.rpm"
			}
			return []report.Finding{report.Fail("slurm.conf", do, "%s=%s is not there: each job's %s fails, and drains the node", key, l.Keys[0].Value, strings.ToLower(key))}
		}
		for _, name := range names {
			files = append(files, script{name, i})
		}
	}
	add := "put it into a folder with a script that does nothing else: " + key + "=/etc/slurm/" + strings.ToLower(key) + ".d/*, and " + copyOurs(key, "/etc/slurm/"+strings.ToLower(key)+".d/*", dir)
	if last := lines[len(lines)-1].Keys[0].Value; slurm.IsPattern(last) {
		add = copyOurs(key, last, dir)
	}
	if all := p.runnable(files, key); len(all) > 0 {
		return all
	}
	return p.reached(files, p.changed(append(files, script{file: path.Join(dir, "slurm.conf")})), key, program, add)
}

// takesOne tells whether the installed Slurm is known to take one line.
func (p *planner) takesOne(conf slurm.Conf, dir string) (slurm.Version, bool) {
	dirs, _ := slurm.PluginDirs(p.Root, conf, dir)
	version, known := slurm.InstalledVersion(p.Root, dirs)
	return version, known && version < slurm.SeveralLines
}

// runnable finds files that slurmd cannot run, or that others than root can change.
func (p *planner) runnable(files []script, key string) (all []report.Finding) {
	const anybody = 0o111
	const others = 0o022
	for _, f := range files {
		info, err := fs.Stat(p.Root, strings.TrimPrefix(f.file, "/"))
		switch {
		case err != nil:
			all = append(all, report.Fail("slurm.conf", "GN115 remove it, or repair its target: ls -l "+f.file, "%s cannot be run as %s: %s", f.file, key, err))
		case info.IsDir():
			all = append(all, report.Fail("slurm.conf", "GN116 say "+key+"="+f.file+"/* if its files are meant", "%s is a folder: each job's %s fails, and drains the node", f.file, strings.ToLower(key)))
		case info.Mode()&anybody == 0:
			all = append(all, report.Fail("slurm.conf", "GN117 chmod +x "+f.file+", or move it out of the folder that "+key+" names", "%s is not executable: each job's %s fails, and drains the node", f.file, strings.ToLower(key)))
		case info.Mode()&others != 0:
			all = append(all, report.Fail("slurm.conf", "GN118 chmod go-w "+f.file, "others than root may write %s, which root runs as %s", f.file, key))
		}
	}
	return all
}

// copyOurs returns the command that puts gresnet's own script into the folder of a pattern, and makes the folder.
func copyOurs(key, pattern, dir string) string {
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	return fmt.Sprintf("install -D -t %s /usr/share/gresnet/%s.d/*-gresnet", path.Dir(pattern), strings.ToLower(key))
}

// reached says whether slurmd comes to the program: a script that is the program, or does nothing else,
// says so itself; of others the records of the runs since they changed do. add is how a call can be had.
func (p *planner) reached(files []script, changed time.Time, key, program, add string) []report.Finding {
	if missed := p.Records.MissedSince(changed); key == "Prolog" && missed != nil {
		return []report.Finding{report.Fail("slurm.conf", "GN425 restart slurmctld and slurmd if slurm.conf has changed since; else let "+key+" come to gresnet-prolog, and end with its exit code", "%s at %s: %s", key, missed.At.Format(time.DateTime), strings.TrimPrefix(missed.Text, "gresnet: "))}
	}
	for i, f := range files {
		if slurm.CallOf(p.Root, f.file, program) == slurm.Calls {
			return p.inOrder(files, i, key)
		}
	}
	if unheard := p.Records.Unheard(changed); key == "Epilog" && unheard != "" {
		return []report.Finding{report.Warn("slurm.conf", "GN501 let Epilog end with gresnet-epilog's exit code; if it does, rm "+state.Dir(p.State).FailedEpilog(), "%s", unheard)}
	}
	if slices.ContainsFunc(files, func(f script) bool { return p.Records.CameThrough(program, f.file, changed) }) {
		return nil
	}
	names, mentions := make([]string, len(files)), false
	for i, f := range files {
		names[i] = f.file
		mentions = mentions || slurm.CallOf(p.Root, f.file, program) == slurm.Mentions
	}
	do := "GN426 run a job, then check again: srun --gres=nic:1 true"
	if !mentions {
		do = "GN307 run a job, then check again: srun --gres=nic:1 true; if no script calls it, " + add
	}
	return []report.Finding{report.Warn("slurm.conf", do, "nobody can tell whether %s=%s calls %s and ends with its exit code: no job has run since the boot, or since a file changed", key, strings.Join(names, ", "), program)}
}

// changed is when the latest of some files changed.
func (p *planner) changed(files []script) (at time.Time) {
	for _, f := range files {
		if info, err := fs.Stat(p.Root, strings.TrimPrefix(f.file, "/")); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// inOrder wants the prolog last, when nothing else can fail any more, and the epilog first, before
// others look at the node.
func (p *planner) inOrder(files []script, ours int, key string) []report.Finding {
	mine, wrong, where, name := files[ours], files[:ours], "first", "zz-gresnet"
	if key == "Prolog" {
		wrong, where, name = files[ours+1:], "last", "00-gresnet"
	}
	if len(wrong) == 0 {
		return nil
	}
	other := wrong[0]
	if key == "Epilog" {
		other = wrong[len(wrong)-1]
	}
	if other.line != mine.line {
		return []report.Finding{report.Fail("slurm.conf", fmt.Sprintf("GN121 make its line the %s of those with %s", where, key), "%s must run %s, and %s is on a line of its own on the wrong side of it", mine.file, where, other.file)}
	}
	do := fmt.Sprintf("GN122 give it a name that comes %s: mv %s %s (Slurm runs names from Z to A, then from 9 to 0)", where, mine.file, path.Join(path.Dir(mine.file), name))
	if path.Base(mine.file) == name {
		do = fmt.Sprintf("GN123 give %s another name (Slurm runs names from Z to A, then from 9 to 0)", other.file)
	}
	if key == "Prolog" {
		return []report.Finding{report.Fail("slurm.conf", do, "%s runs after %s: it does not find the job's HCAs on the node, and where it fails they were moved for nothing", other.file, mine.file)}
	}
	return []report.Finding{report.Fail("slurm.conf", do, "%s runs before %s: where it fails, no program returns the job's HCAs to the node", other.file, mine.file)}
}
