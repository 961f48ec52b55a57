package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
)

// PortGUID returns the GUID of an InfiniBand port, which is the second half of its first GID.
func PortGUID(sys fs.FS, rdma string, port uint32) ([]byte, error) {
	text, err := read(sys, path.Join(portDir(rdma, port), "gids", "0"))
	if err != nil {
		return nil, err
	}
	gid, err := netip.ParseAddr(text)
	if err != nil {
		return nil, err
	}
	bytes := gid.As16()
	return bytes[8:], nil
}

// MissingGIDs returns those of the wanted GIDs that a port does not have. A table
// has hundreds of entries, and the first few are in use: it is read only as
// far as it takes.
func MissingGIDs(sys fs.FS, rdma string, port uint32, want []netip.Addr) ([]netip.Addr, error) {
	missing := slices.Clone(want)
	err := eachGID(sys, rdma, port, func(_ int, gid netip.Addr) bool {
		missing = slices.DeleteFunc(missing, func(g netip.Addr) bool { return g == gid })
		return len(missing) > 0
	})
	return missing, err
}

// Entry is a GID with its place in the table, by which programs name it.
type Entry struct {
	Index int
	GID   netip.Addr
}

// RoCEv2 returns a port's GIDs for RoCE v2 that are addresses of a network interface.
func RoCEv2(sys fs.FS, rdma string, port uint32, netdev string) (entries []Entry, err error) {
	attributes := path.Join(portDir(rdma, port), "gid_attrs")
	err = eachGID(sys, rdma, port, func(n int, gid netip.Addr) bool {
		// One that cannot be read was just taken away.
		kind, _ := read(sys, path.Join(attributes, "types", strconv.Itoa(n)))
		of, _ := read(sys, path.Join(attributes, "ndevs", strconv.Itoa(n)))
		// drivers/infiniband/core/cache.c:gid_type_str
		if kind == "RoCE v2" && of == netdev {
			entries = append(entries, Entry{n, gid})
		}
		return true
	})
	return entries, err
}

// GIDTable says how many GIDs a RoCE port can have. The kernel adds no GID to a full table, and tells
// nobody (drivers/infiniband/core/cache.c:__ib_cache_gid_add).
type GIDTable struct {
	Length int
	Kinds  int // of RoCE that the port speaks, v1 and v2: each address has a GID for each
}

// ReadGIDTable reads the table of a port.
func ReadGIDTable(sys fs.FS, rdma string, port uint32) (t GIDTable, err error) {
	names, err := fs.ReadDir(sys, path.Join(portDir(rdma, port), "gids"))
	if err != nil {
		return t, err
	}
	t.Length = len(names)
	seen := map[string]bool{}
	err = eachGID(sys, rdma, port, func(n int, _ netip.Addr) bool {
		kind, err := read(sys, path.Join(portDir(rdma, port), "gid_attrs/types", strconv.Itoa(n)))
		if err == nil { // else it was just taken away
			seen[kind] = true
		}
		return len(seen) < 2
	})
	t.Kinds = len(seen)
	return t, err
}

// eachGID shows f the GIDs that are in use, until it has seen enough.
func eachGID(sys fs.FS, rdma string, port uint32, f func(n int, gid netip.Addr) bool) error {
	dir := path.Join(portDir(rdma, port), "gids")
	for n := 0; ; n++ {
		text, err := read(sys, path.Join(dir, strconv.Itoa(n)))
		if errors.Is(err, fs.ErrNotExist) && n > 0 {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list the GIDs of %s port %d: %w", rdma, port, err)
		}
		if err != nil {
			continue // an entry that was just taken away (sysfs.c:_show_port_gid_attr)
		}
		gid, err := netip.ParseAddr(text)
		if err != nil || gid.IsUnspecified() || text == "fe80:0000:0000:0000:0000:0000:0000:0000" {
			continue
		}
		if !f(n, gid) {
			return nil
		}
	}
}
