package mount

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Server is a host that the node has a file system mounted from.
type Server struct {
	Point string
	Addr  netip.Addr
}

// network are the types of network file systems that only root can mount. Other types
// are not believed: a user mounts FUSE with any source and any subtype, and a type that
// a user namespace may mount says what its user wants.
var network = []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "9p"}

// Servers are the hosts of the mounted network file systems that say theirs,
// as NFS and SMB do (proc_pid_mountinfo(5): super options, addr=).
func Servers() ([]Server, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return servers(text), nil
}

func servers(text []byte) (list []Server) {
	// To parse a line takes longer than all else here, and few have an address.
	var with []byte
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("addr=")) {
			with = append(with, line...)
		}
	}
	for _, m := range Parse(with) {
		if !slices.Contains(network, m.FSType) {
			continue
		}
		for _, option := range strings.Split(m.VFSOptions, ",") {
			value, ok := strings.CutPrefix(option, "addr=")
			if addr, err := netip.ParseAddr(value); ok && err == nil {
				list = append(list, Server{m.Mountpoint, addr})
			}
		}
	}
	return list
}

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
