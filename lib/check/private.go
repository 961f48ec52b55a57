package check

import (
	"path"
	"strings"

	"gresnet/lib/slurm"
)

// hides finds folders that Slurm gives each job anew, and that jobs' leases are below.
func (s Site) hides(conf slurm.Conf, dir string) []Finding {
	kind := conf.Last("namespacetype")
	if kind == "" {
		kind = conf.Last("jobcontainertype") // its name before 25.11
	}
	var file string
	var dirs []string
	switch path.Base(kind) {
	case "tmpfs":
		file = path.Join(dir, "job_container.conf")
		dirs = slurm.ContainerDirs(s.Root, file, s.Node)
	case "linux":
		file = path.Join(dir, "namespace.yaml")
		dirs = slurm.NamespaceDirs(s.Root, file)
	}
	for _, d := range dirs {
		if d = path.Clean(d); path.IsAbs(d) && (d == "/" || d == path.Clean(s.State) || strings.HasPrefix(path.Clean(s.State), d+"/")) {
			return []Finding{fail(path.Base(file), "GN110 take "+d+" out of it", "it gives each job a %s of its own, which hides the leases in %s: steps of jobs with HCAs fail", d, s.State)}
		}
	}
	return nil
}
