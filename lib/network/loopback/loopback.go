// Package loopback lists who waits for callers on a network namespace's loopback.
package loopback

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/slurm/account"
)

// Socket is one at an address of the loopback that takes calls or datagrams from anybody there.
type Socket struct {
	Protocol string // tcp or udp
	Address  netip.AddrPort
	UID      uint32 // of whose program it is
}

// String returns the socket as people write it.
func (s Socket) String() string { return s.Protocol + " " + s.Address.String() }

const dns = 53

// Services reads those that programs of the node call: a user's is that user's own, and jobs do without a
// nameserver on the node's loopback. The files are the node's, from / on.
func Services(root fs.FS) ([]Socket, error) {
	var dirs [2]fs.FS
	for i, name := range []string{"etc", "proc"} {
		var err error
		if dirs[i], err = fs.Sub(root, name); err != nil {
			return nil, err
		}
	}
	users, err := account.Read(dirs[0])
	if err != nil {
		return nil, err
	}
	all, err := sockets(dirs[1])
	return slices.DeleteFunc(all, func(s Socket) bool { return s.Address.Port() == dns || users.Has(s.UID) }), err
}

// The columns of the kernel's lists (net/ipv4/tcp_ipv4.c:get_openreq4, net/ipv4/udp.c:udp4_format_sock).
const (
	localColumn, stateColumn, uidColumn = 1, 3, 7

	listens = "0A" // TCP_LISTEN
	open    = "07" // TCP_CLOSE, which a socket of UDP is unless it is connected, as a client's is
)

// sockets reads those of the reader's namespace from proc.
func sockets(proc fs.FS) (all []Socket, err error) {
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		protocol, state := name[:3], open
		if protocol == "tcp" {
			state = listens
		}
		some, err := read(proc, "net/"+name, state)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			return nil, err
		}
		for _, s := range some {
			s.Protocol = protocol
			all = append(all, s)
		}
	}
	return all, nil
}

// read reads a list. In that of TCP those that listen come first, and are all that is read: users decide
// how many connections there are.
func read(proc fs.FS, name, state string) (all []Socket, err error) {
	f, err := proc.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) <= uidColumn || words[0] == "sl" {
			continue
		}
		if words[stateColumn] != state {
			if state == listens {
				break
			}
			continue
		}
		s, err := parse(words)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if s.Address.Addr().IsLoopback() {
			all = append(all, s)
		}
	}
	return all, lines.Err()
}

func parse(words []string) (s Socket, err error) {
	host, port, _ := strings.Cut(words[localColumn], ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		return s, err
	}
	for word := range slices.Chunk(raw, 4) { // each word is in the processor's own order
		if len(word) == 4 {
			binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
		}
	}
	a, is := netip.AddrFromSlice(raw)
	if !is {
		return s, fmt.Errorf("%q is no address", host)
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return s, err
	}
	uid, err := strconv.ParseUint(words[uidColumn], 10, 32)
	s.Address, s.UID = netip.AddrPortFrom(a.Unmap(), uint16(number)), uint32(uid)
	return s, err
}
