package mount

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// Server is a host that the node has a file system mounted from.
type Server struct {
	Point string
	Addr  netip.Addr
}

// Servers are the hosts of the mounted network file systems that say theirs,
// as NFS and SMB do (proc_pid_mountinfo(5): super options, addr=).
func Servers() ([]Server, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return servers(string(text)), nil
}

func servers(mountinfo string) (list []Server) {
	for _, line := range strings.Split(mountinfo, "\n") {
		// Optional fields end with a dash; type, source and options follow.
		before, after, _ := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) < 3 {
			continue
		}
		for _, option := range strings.Split(rest[2], ",") {
			value, ok := strings.CutPrefix(option, "addr=")
			if addr, err := netip.ParseAddr(value); ok && err == nil {
				list = append(list, Server{fields[4], addr})
			}
		}
	}
	return list
}
