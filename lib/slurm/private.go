package slurm

import (
	"io/fs"
	"path"
	"strings"
)

// Private returns the folders that Slurm gives each job of a node again, and the file that says so.
func (c Conf) Private(root fs.FS, dir, node string) (file string, dirs []string) {
	kind := c.Last("namespacetype")
	if kind == "" {
		kind = c.Last("jobcontainertype") // its name before 25.11
	}
	switch path.Base(kind) {
	case "tmpfs":
		file = path.Join(dir, "job_container.conf")
		dirs = containerDirs(root, file, node)
	case "linux":
		file = path.Join(dir, "namespace.yaml")
		dirs = namespaceDirs(root, file)
	}
	return file, dirs
}

// containerDirs returns the folders that job_container.conf gives each job of a node again.
func containerDirs(root fs.FS, file, node string) (dirs []string) {
	lines, err := Read(root, file)
	if err != nil {
		return nil // slurmd does not start without it
	}
	for _, l := range lines {
		if hosts := l.Get("nodename"); hosts != "" {
			if list, err := ParseHostlist(hosts); err != nil || !list.Contains(node) {
				continue
			}
		}
		dirs = append(dirs, strings.Split(l.Get("dirs"), ",")...)
	}
	return dirs
}

// namespaceDirs returns those of namespace.yaml, whatever nodes they are for.
func namespaceDirs(root fs.FS, file string) (dirs []string) {
	text, err := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		key, value, _ := strings.Cut(strings.TrimLeft(line, " \t-"), ":")
		if key == "dirs" || key == "path" {
			dirs = append(dirs, strings.Split(strings.Trim(strings.TrimSpace(value), `"'`), ",")...)
		}
	}
	return dirs
}
