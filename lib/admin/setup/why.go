package setup

import (
	"path"
	"strings"
)

// whyOf returns what a line that setup writes is for, for people who have never seen it; an empty line stands
// for the file itself. It is empty for comments and for what they explain.
func whyOf(e Edit, line string) string {
	word, _, _ := strings.Cut(line, "=")
	word, _, _ = strings.Cut(word, " ")
	switch strings.ToLower(word) {
	case "":
		if e.Link != "" {
			return "it readies the node at each boot"
		}
		if e.isScript() {
			return "it runs gresnet's program; on a host without gresnet it does nothing"
		}
		if e.Placeholder {
			return "Slurm numbers NICs by such files"
		}
	case "include":
		return "the same on all hosts: one without that file has no plugin"
	case "required":
		return "tasks and batch scripts run in their job's network; without the plugin no step starts"
	case "constraindevices":
		return "jobs open the GPUs that they were given, and no others"
	case "nodename":
		if path.Base(e.Path) == "gres.conf" {
			return "Slurm gives jobs NICs by these"
		}
		return "Slurm counts the node's NICs"
	case "grestypes":
		return "jobs can ask for NICs"
	case "prolog":
		return "it gives a job its HCAs before the job begins; if it fails, Slurm drains the node"
	case "epilog":
		return "it returns the HCAs; if it fails, Slurm drains the node"
	case "prologflags":
		return "Prolog runs on each of a job's nodes before the job's first step"
	case strings.ToLower(memlockExcept), strings.ToLower(memlockOnly):
		return "RDMA programs lock more memory than whoever submits a job often may"
	case "[[hca]]":
		return "jobs get these HCAs; the node keeps those that it needs itself"
	case "[rdma]":
		return "the kernel's RDMA netns mode from the next boot on"
	}
	return ""
}
