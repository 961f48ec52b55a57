package uplink

import (
	"io/fs"
	"slices"
	"strings"
)

// BeforeHosts returns the service that programs ask for a host's name before they look into
// /etc/hosts, or "". Only a job's /etc/hosts knows the job's addresses.
func BeforeHosts(root fs.FS) string {
	for _, words := range lines(root, "etc/nsswitch.conf") {
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

// CachesHosts tells whether nscd runs and answers for hosts' names. glibc then asks it in place of
// /etc/hosts.
func CachesHosts(root fs.FS) bool {
	if _, err := fs.Stat(root, "run/nscd/socket"); err != nil {
		return false
	}
	return slices.ContainsFunc(lines(root, "etc/nscd.conf"), func(words []string) bool {
		return slices.Equal(words, []string{"enable-cache", "hosts", "yes"})
	})
}

// lines returns the words of a file's lines, without comments. A file that is not there has none.
func lines(root fs.FS, path string) (all [][]string) {
	text, err := fs.ReadFile(root, path)
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
