package check

import (
	"path"
	"strings"

	"gresnet/lib/slurm"
)

// hides finds folders that Slurm gives each job again, and that jobs' leases are below.
func (s Site) hides(conf slurm.Conf, dir string) []Finding {
	file, dirs := conf.Private(s.Root, dir, s.Node)
	for _, d := range dirs {
		if d = path.Clean(d); path.IsAbs(d) && (d == "/" || d == path.Clean(s.State) || strings.HasPrefix(path.Clean(s.State), d+"/")) {
			return []Finding{fail(path.Base(file), "GN110 take "+d+" out of it", "it gives each job a %s of its own, which hides the leases in %s: steps of jobs with HCAs fail", d, s.State)}
		}
	}
	return nil
}
