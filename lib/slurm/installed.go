package slurm

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// PluginDirs returns the folders where Slurm looks for plugins. said tells that slurm.conf names them.
// Else it is the folder that Slurm was built with: a package's, or one below the prefix of dir, which
// is the folder of slurm.conf.
func PluginDirs(root fs.FS, c Conf, dir string) (dirs []string, said bool) {
	if text := c.Last("plugindir"); text != "" {
		for _, folder := range strings.Split(text, ":") {
			if folder != "" {
				dirs = append(dirs, path.Clean(folder)) // a site may write a slash at its end
			}
		}
		return dirs, true
	}
	prefix := strings.TrimPrefix(path.Dir(dir), "/")
	for _, pattern := range []string{
		"usr/lib/*/slurm-wlm", "usr/lib/*/slurm", "usr/lib64/slurm", "usr/lib/slurm", "usr/local/lib/slurm",
		prefix + "/lib/slurm", prefix + "/lib64/slurm",
	} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			continue
		}
		for _, name := range found {
			if _, is := InstalledVersion(root, []string{name}); is && !slices.Contains(dirs, "/"+name) {
				dirs = append(dirs, "/"+name)
			}
		}
	}
	return dirs, false
}

// PluginFiles returns where the file of a line of plugstack.conf may be, if Slurm looks in some folders.
func PluginFiles(said string, dirs []string) (files []string) {
	if path.IsAbs(said) {
		return []string{said}
	}
	for _, dir := range dirs {
		files = append(files, path.Join(dir, said))
	}
	return files
}

// SeveralLines is the version from which Slurm takes several lines of Prolog and of Epilog
// (Slurm src/common/read_config.c:_load_script). Before it, the last one counts.
const SeveralLines = Version(24<<16 | 5<<8)

// InstalledVersion returns the version of the installed Slurm. It reads it from a plugin of Slurm's own
// in dirs and runs no program, because some need slurmctld even to say their version.
func InstalledVersion(root fs.FS, dirs []string) (Version, bool) {
	for _, dir := range dirs {
		names, err := fs.Glob(root, strings.TrimPrefix(dir, "/")+"/*.so")
		if err != nil {
			continue
		}
		for _, name := range names {
			if p, err := ReadStamp(root, name); err == nil && p.Type != "spank" {
				return p.Version, true
			}
		}
	}
	return 0, false
}
