// Package mountinfo parses the kernel's lists of mounts.
package mountinfo

import (
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Parse returns the mounts that a mountinfo file has (proc_pid_mountinfo(5)).
// It skips a line that it cannot parse. Users write into this file: by the name of a
// FUSE file system's source, and by the path of a mount point, which has no
// greatest length. One such line must not hide the others.
func Parse(text []byte) (mounts []*mountinfo.Info) {
	for line := range strings.Lines(string(text)) {
		if parsed, err := mountinfo.GetMountsFromReader(strings.NewReader(line), nil); err == nil {
			mounts = append(mounts, parsed...)
		}
	}
	return mounts
}
