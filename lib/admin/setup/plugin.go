package setup

import (
	"io/fs"
	"path"
	"strings"

	"gresnet/lib/hca/report"
	"gresnet/lib/slurm"
)

// plugin holds the plugin's file against Slurm, which does not load one that
// was built for another version. name is as the line in plugstack.conf has it.
func (p *planner) plugin(name string, dirs []string, said bool) report.Finding {
	const about = "plugin"
	const do = "GN099 install the gresnet-spank for this version of Slurm"
	installed, known := slurm.InstalledVersion(p.Root, dirs)
	files := slurm.PluginFiles(name, dirs)
	var built slurm.Version
	for _, file := range files {
		info, err := fs.Stat(p.Root, strings.TrimPrefix(file, "/"))
		if err != nil {
			continue
		}
		stamp, err := slurm.ReadStamp(p.Root, file)
		const others = 0o004
		switch {
		case err != nil:
			return report.Fail(about, do, "%s: %s", file, err)
		case !known:
			return report.Warn(about, "GN100 see that the two are of one version, or set PluginDir in slurm.conf", "%s is for Slurm %s; the installed Slurm was not found", file, stamp.Version)
		case !stamp.Version.Fits(installed):
			built = stamp.Version
			continue // Slurm looks on, too
		case info.Mode()&others == 0:
			return report.Fail(about, "GN101 chmod o+r it: srun and sbatch load it, too", "%s is not readable by users", file)
		}
		return report.Well(about, "%s is for Slurm %s, which is installed", file, stamp.Version)
	}
	switch {
	case built != 0:
		return report.Fail(about, do, "%s is for Slurm %s, and Slurm %s is installed: no step starts", name, built, installed)
	case len(files) == 0:
		return report.Warn(about, "GN102 set PluginDir in slurm.conf", "%s was not looked for: Slurm's folder of plugins was not found", name)
	case path.IsAbs(name):
		return report.Fail(about, do, "%s is not there", name)
	case !said:
		return report.Fail(about, do+", or set PluginDir in slurm.conf", "%s is not in %s", name, strings.Join(dirs, ", "))
	}
	return report.Fail(about, do, "%s is not in PluginDir %s", name, strings.Join(dirs, ", "))
}
