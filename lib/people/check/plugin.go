package check

import (
	"io/fs"
	"path"
	"strings"

	"gresnet/lib/slurm/plugin"
)

// plugin holds the plugin's file against Slurm, which does not load one that
// was built for another version. name is as the line in plugstack.conf has it.
func (s Site) plugin(name string, dirs []string, said bool) Finding {
	const about = "plugin"
	const do = "GN099 install the gresnet-spank for this version of Slurm"
	installed, known := plugin.InstalledVersion(s.Root, dirs)
	files := plugin.Files(name, dirs)
	var built plugin.Version
	for _, file := range files {
		info, err := fs.Stat(s.Root, strings.TrimPrefix(file, "/"))
		if err != nil {
			continue
		}
		p, err := plugin.ReadStamp(s.Root, file)
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
