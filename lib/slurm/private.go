package slurm

import (
	"io/fs"
	"strings"
)

// ContainerDirs are the folders that job_container.conf gives each job of a node anew.
func ContainerDirs(root fs.FS, file, node string) (dirs []string) {
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

// NamespaceDirs are those of namespace.yaml, whatever nodes they are for.
func NamespaceDirs(root fs.FS, file string) (dirs []string) {
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
