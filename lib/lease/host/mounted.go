package host

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// server is a host that the node has a file system mounted from.
type server struct {
	Point string
	Addr  netip.Addr
}

// networkTypes are the types of network file systems that only root can mount. Other types
// are not believed: a user mounts FUSE with any source and any subtype, and a type that
// a user namespace may mount says what its user wants.
var networkTypes = []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "wekafs"}

// servers returns the hosts of the mounted network file systems that say theirs: by an option, as
// NFS and SMB do (proc_pid_mountinfo(5): super options, addr=), by their source, as Lustre does, or in files
// of root's.
func servers() ([]server, error) {
	if types, err := os.ReadFile("/proc/filesystems"); err == nil && !hasNetwork(types) {
		return nil, nil
	}
	return mountedServers()
}

func mountedServers() ([]server, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return serversIn(text, hostRoot), nil
}

// hasNetwork tells whether the kernel knows a type of network file system, by its list (proc_filesystems(5)). It does as
// long as one is mounted (filesystems.c:get_filesystem holds the module), and is asked first because a list of thousands
// of mounts takes it long.
func hasNetwork(types []byte) bool {
	for line := range bytes.Lines(types) {
		_, name, _ := bytes.Cut(line, []byte("\t")) // nodev or nothing is before it
		if isNetwork(bytes.TrimSpace(name)) {
			return true
		}
	}
	return false
}

func serversIn(text []byte, root fs.FS) (list []server) {
	mounts := parseMounts(networkLines(text))
	for _, m := range mounts {
		if !slices.Contains(networkTypes, m.FSType) {
			continue
		}
		for _, addr := range slices.Concat(optionAddrs(m.VFSOptions), lustreAddrs(m.FSType, m.Source), wekaAddrs(m.FSType, m.Source)) {
			list = append(list, server{m.Mountpoint, addr})
		}
	}
	return append(list, storageServers(mounts, root)...)
}

// separator stands before the type of a file system. The kernel escapes the blanks of all that users
// name, so no path has it (fs/proc_namespace.c:show_mountinfo).
var separator = []byte(" - ")

// networkLines returns the lines of network file systems, which alone are parsed: a node may have thousands
// of others.
func networkLines(text []byte) (lines []byte) {
	for {
		before, rest, found := bytes.Cut(text, separator)
		if !found {
			return lines
		}
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		if fsType, _, _ := bytes.Cut(rest[:end], []byte(" ")); isNetwork(fsType) {
			begun := bytes.LastIndexByte(before, '\n') + 1 // a line without a separator may precede
			lines = append(lines, text[begun:len(before)+len(separator)+end]...)
		}
		text = rest[end:]
	}
}

func isNetwork(fsType []byte) bool {
	return slices.Contains(networkTypes, string(fsType)) || storageTypes[string(fsType)] != nil
}

func optionAddrs(options string) (addrs []netip.Addr) {
	for option := range strings.SplitSeq(options, ",") {
		value, ok := strings.CutPrefix(option, "addr=")
		if addr, err := netip.ParseAddr(value); ok && err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// lustreAddrs returns the addresses of the servers in Lustre's source: 10.0.0.5@o2ib,10.1.0.5@tcp1:10.0.0.6@o2ib:/fs
// (mount.lustre(8)). On InfiniBand (o2ib) they are those of IPoIB, and routes lead to them as to others.
func lustreAddrs(fsType, source string) (addrs []netip.Addr) {
	if fsType != "lustre" {
		return nil
	}
	servers, _, _ := strings.Cut(source, ":/")
	for _, nid := range strings.FieldsFunc(servers, func(r rune) bool { return r == ':' || r == ',' }) {
		host, _, _ := strings.Cut(nid, "@")
		if addr, err := netip.ParseAddr(host); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// parseMounts returns the mounts that a mountinfo file has (proc_pid_mountinfo(5)).
// It skips a line that it cannot parse. Users write into this file: by the name of a
// FUSE file system's source, and by the path of a mount point, which has no
// greatest length. One such line must not hide the others.
func parseMounts(text []byte) (mounts []*mountinfo.Info) {
	for line := range strings.Lines(string(text)) {
		if parsed, err := mountinfo.GetMountsFromReader(strings.NewReader(line), nil); err == nil {
			mounts = append(mounts, parsed...)
		}
	}
	return mounts
}
