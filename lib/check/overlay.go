package check

import (
	"io/fs"
	"slices"
	"strings"
)

// overlays holds [overlay] against the node.
func (s Site) overlays() []Finding {
	const about = "overlay"
	c := s.Config.Overlay
	switch {
	case !c.On():
		return nil
	case s.OverlayErr != nil:
		f := failed(about, s.OverlayErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ") // as a prolog has it
		return []Finding{f}
	}
	all := []Finding{ok(about, "%s: jobs of up to %d nodes in %s; UDP port %d must be open between nodes", c.Interface, c.Nodes(), c.Network, c.Port)}
	const mean = "in jobs, the names of their nodes mean the nodes"
	if service := s.beforeHosts(); service != "" {
		all = append(all, warn(about, "put files first in its line hosts", "/etc/nsswitch.conf has programs ask %s for a name before /etc/hosts: %s", service, mean))
	}
	if s.cachesHosts() {
		all = append(all, warn(about, "set enable-cache hosts no in /etc/nscd.conf, and restart nscd", "programs ask nscd for a name before /etc/hosts: %s", mean))
	}
	return all
}

// beforeHosts returns the service that programs ask for a host's name before they look into
// /etc/hosts, or "". Only a job's /etc/hosts knows the job's addresses.
func (s Site) beforeHosts() string {
	for _, words := range s.lines("etc/nsswitch.conf") {
		if words[0] != "hosts:" {
			continue
		}
		for _, service := range words[1:] {
			if service == "mymachines" { // it knows containers alone
				continue
			}
			if service == "files" {
				return ""
			}
			return service
		}
	}
	return ""
}

// cachesHosts tells whether nscd runs and answers for hosts' names. glibc then asks it in place of
// /etc/hosts.
func (s Site) cachesHosts() bool {
	if _, err := fs.Stat(s.Root, "run/nscd/socket"); err != nil {
		return false
	}
	return slices.ContainsFunc(s.lines("etc/nscd.conf"), func(words []string) bool {
		return slices.Equal(words, []string{"enable-cache", "hosts", "yes"})
	})
}

// lines returns the words of a file's lines, without comments. A file that is not there has none.
func (s Site) lines(path string) (all [][]string) {
	text, err := fs.ReadFile(s.Root, path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}
