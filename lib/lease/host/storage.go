package host

import (
	"bufio"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// storageTypes are the types of file systems whose servers stand in files of root's, and what reads these.
var storageTypes = map[string]func(root fs.FS) []netip.Addr{"beegfs": beegfsAddrs, "gpfs": gpfsAddrs}

// storageServers returns the servers of those mounts that are of such a type. root is the node's from / on.
func storageServers(mounts []*mountinfo.Info, root fs.FS) (list []server) {
	for _, m := range mounts {
		if storageTypes[m.FSType] == nil {
			continue
		}
		for _, addr := range storageTypes[m.FSType](root) {
			list = append(list, server{m.Mountpoint, addr})
		}
	}
	return list
}

// hostRoot is the node's files.
var hostRoot = os.DirFS("/")

// beegfsAddrs returns the addresses of BeeGFS's servers to which the node has connections, each in a line
// like "   Connections: TCP: 4 (10.0.0.5:8003); RDMA: 1 (10.1.0.5:8003 [fallback route]);".
func beegfsAddrs(root fs.FS) (addrs []netip.Addr) {
	files, err := fs.Glob(root, "proc/fs/beegfs/*/*_nodes")
	if err != nil {
		return nil
	}
	for _, file := range files {
		eachLine(root, file, func(line string) {
			_, list, is := strings.Cut(line, "Connections:")
			for is && list != "" {
				var word string
				_, list, _ = strings.Cut(list, "(")
				word, list, _ = strings.Cut(list, ")")
				word, _, _ = strings.Cut(word, " ")
				if at, err := netip.ParseAddrPort(word); err == nil {
					addrs = append(addrs, at.Addr().Unmap())
				}
			}
		})
	}
	return addrs
}

// gpfsAddrs returns the addresses of the cluster's members, one of each network: members are thousands,
// and a route leads to a network (%%home%%:20_MEMBER_NODE::1:1:name:ADDRESS:…).
func gpfsAddrs(root fs.FS) (addrs []netip.Addr) {
	const field, wide, wide6 = 6, 24, 64
	seen := map[netip.Prefix]bool{}
	eachLine(root, "var/mmfs/gen/mmsdrfs", func(line string) {
		fields := strings.Split(line, ":")
		if len(fields) <= field || fields[1] != "20_MEMBER_NODE" {
			return
		}
		addr, err := netip.ParseAddr(fields[field])
		if err != nil {
			return
		}
		bits := wide
		if addr.Is6() {
			bits = wide6
		}
		if network, err := addr.Prefix(bits); err == nil && !seen[network] {
			seen[network] = true
			addrs = append(addrs, addr)
		}
	})
	return addrs
}

// eachLine reads a file that only root can write. One that is not there has no lines.
func eachLine(root fs.FS, name string, read func(line string)) {
	f, err := root.Open(path.Clean(name))
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		read(lines.Text())
	}
}

// wekaAddrs returns the addresses of the servers in WekaFS's source: 10.0.0.5,10.0.0.6/fs.
func wekaAddrs(fsType, source string) (addrs []netip.Addr) {
	if fsType != "wekafs" {
		return nil
	}
	servers, _, _ := strings.Cut(source, "/")
	for _, name := range strings.Split(servers, ",") {
		if addr, err := netip.ParseAddr(name); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
