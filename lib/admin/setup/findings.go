package setup

import (
	"path"
	"slices"

	"gresnet/lib/hca/report"
)

// found adds to what is said of the files: what setup changes is said here, and nowhere else.
func (p *planner) found(all ...report.Finding) { p.Plan.Findings = append(p.Plan.Findings, all...) }

// refused says that slurmd does not take a file of Slurm's, which setup does not change then.
func (p *planner) refused(about string, err error) {
	p.found(report.Fail(about, "GN405 correct the line", "%s: slurmd refuses the file", err))
	p.refuse(err.Error(), correct)
}

// explain sees to it that no change is without a finding, though no finding says why it is made.
func (p *planner) explain(e Edit) {
	if slices.ContainsFunc(p.Plan.Findings[p.asked:], func(f report.Finding) bool { return f.Level != report.OK }) {
		return
	}
	for _, line := range e.added() {
		p.found(report.Warn(path.Base(e.Path), "GN893 gresnet setup, or add it", "%s lacks: %s", e.Path, line))
	}
}
