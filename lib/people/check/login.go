package check

import (
	"path"
	"slices"

	"gresnet/lib/slurm"
	"gresnet/lib/slurm/plugin"
)

// RunLogin checks a host without HCAs, where users call Slurm's commands: srun and sbatch load the
// plugins of plugstack.conf, too, and do not start without one that is required.
func (s Site) RunLogin() []Finding {
	conf, dir, all := s.readSlurm()
	if conf == nil {
		return all
	}
	without := []Finding{ok("plugstack.conf", "it does not have gresnet's plugin, which a host without HCAs does not need")}
	if !slurm.Exists(s.Root, plugstackFile(conf, dir)) {
		return without // Slurm comes without the file
	}
	lines, err := s.stack(conf, dir)
	if err != nil {
		return []Finding{failed("plugstack.conf", err)}
	}
	i := slices.IndexFunc(lines, func(l slurm.StackLine) bool { return l.Is("gresnet") })
	if i < 0 {
		return without
	}
	dirs, said := plugin.Dirs(s.Root, conf, dir)
	f := s.plugin(lines[i].Plugin, dirs, said)
	if f.Level == Error {
		f.Text += ": srun and sbatch do not run here"
	}
	return []Finding{s.arguments(lines[i]), f}
}

// stack returns what plugstack.conf has.
func (s Site) stack(conf slurm.Conf, dir string) ([]slurm.StackLine, error) {
	return slurm.ReadPlugstack(s.Root, plugstackFile(conf, dir))
}

func plugstackFile(conf slurm.Conf, dir string) string {
	if file := conf.Last("plugstackconfig"); file != "" {
		return file
	}
	return path.Join(dir, "plugstack.conf")
}
