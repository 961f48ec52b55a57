package check

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/slurm"
)

// pluginDirs are the folders that Slurm looks for plugins in: those of
// slurm.conf, else the one that Slurm was built with, which is a package's or
// that of the prefix that slurm.conf is below.
func (s Site) pluginDirs(conf slurm.Conf, dir string) (dirs []string, said bool) {
	if text := conf.Last("plugindir"); text != "" {
		return strings.Split(text, ":"), true
	}
	prefix := strings.TrimPrefix(path.Dir(dir), "/")
	for _, pattern := range []string{
		"usr/lib/*/slurm-wlm", "usr/lib/*/slurm", "usr/lib64/slurm", "usr/lib/slurm", "usr/local/lib/slurm",
		prefix + "/lib/slurm", prefix + "/lib64/slurm",
	} {
		found, err := fs.Glob(s.Root, pattern)
		if err != nil {
			continue
		}
		for _, name := range found {
			if _, is := s.slurmVersion([]string{name}); is && !slices.Contains(dirs, "/"+name) {
				dirs = append(dirs, "/"+name)
			}
		}
	}
	return dirs, false
}

// slurmVersion is the version of the Slurm that is installed, which all of its
// own plugins have. No program of Slurm's is asked: some need slurmctld even
// to say their version.
func (s Site) slurmVersion(dirs []string) (slurm.Version, bool) {
	for _, dir := range dirs {
		names, err := fs.Glob(s.Root, strings.TrimPrefix(dir, "/")+"/*.so")
		if err != nil {
			continue
		}
		for _, name := range names {
			if p, err := slurm.ReadStamp(s.Root, name); err == nil && p.Type != "spank" {
				return p.Version, true
			}
		}
	}
	return 0, false
}

// plugin holds the plugin's file against Slurm, which does not load one that
// was built for another version. name is as the line in plugstack.conf has it.
func (s Site) plugin(name string, dirs []string, said bool) Finding {
	const about = "plugin"
	const do = "GN099 install the gresnet-spank for this version of Slurm"
	installed, known := s.slurmVersion(dirs)
	files := []string{name}
	if !path.IsAbs(name) {
		files = nil
		for _, dir := range dirs {
			files = append(files, path.Join(dir, name))
		}
	}
	var built slurm.Version
	for _, file := range files {
		info, err := fs.Stat(s.Root, strings.TrimPrefix(file, "/"))
		if err != nil {
			continue
		}
		p, err := slurm.ReadStamp(s.Root, file)
		const others = 0o004
		switch {
		case err != nil:
			return fail(about, do, "%s: %s", file, err)
		case !known:
			return warn(about, "GN100 see that the two are of one version, or set PluginDir in slurm.conf", "%s is for Slurm %s; the installed Slurm was not found", file, p.Version)
		case !p.Version.Fits(installed):
			built = p.Version
			continue // Slurm looks on, too
		case info.Mode()&others == 0:
			return fail(about, "GN101 chmod o+r it: srun and sbatch load it, too", "%s is not readable by users", file)
		}
		return ok(about, "%s is for Slurm %s, which is installed", file, p.Version)
	}
	switch {
	case built != 0:
		return fail(about, do, "%s is for Slurm %s, and Slurm %s is installed: no step starts", name, built, installed)
	case len(files) == 0:
		return warn(about, "GN102 set PluginDir in slurm.conf", "%s was not looked for: Slurm's folder of plugins was not found", name)
	case path.IsAbs(name):
		return fail(about, do, "%s is not there", name)
	case !said:
		return fail(about, do+", or set PluginDir in slurm.conf", "%s is not in %s", name, strings.Join(dirs, ", "))
	}
	return fail(about, do, "%s is not in PluginDir %s", name, strings.Join(dirs, ", "))
}
