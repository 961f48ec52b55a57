// Package sysctl keeps the sysctls of an interface.
package sysctl

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Values are an interface's own sysctls: "ipv4/conf/rp_filter" is
// net.ipv4.conf.NAME.rp_filter. An interface that arrives in a namespace has
// what that namespace's default is, so all are kept: which of them an
// administrator set cannot be told from the default on the node, which may have
// been changed after the interface was made.
type Values map[string]string

var native = binary.NativeEndian

// Interface is an interface that was just looked at.
type Interface struct {
	MTU       int
	Name      string
	Described netlink.Attributes // of RTM_NEWLINK
}

// Path returns the file of an interface's sysctl.
func Path(key, name string) string {
	return filepath.Join(net, filepath.Dir(key), name, filepath.Base(key))
}

// Forwarding6 says whether an interface passes on what arrives by it over IPv6.
const Forwarding6 = "ipv6/conf/forwarding"

const (
	stableSecret = "ipv6/conf/stable_secret"
	addrGenMode  = "ipv6/conf/addr_gen_mode"
	acceptDAD    = "ipv6/conf/accept_dad"
	ipv6MTU      = "ipv6/conf/mtu"
)

// derived tells sysctls that have no value of their own: multicast forwarding
// is a routing daemon's socket option, the others are a coarser view of one
// that is kept (neighbour.c:neigh_sysctl_template).
func derived(file string) bool {
	switch file {
	case "mc_forwarding", "base_reachable_time", "retrans_time", "unres_qlen":
		return true
	}
	return false
}

// Read reads the sysctls of an interface of the calling thread's namespace that was
// just looked at. A kernel without IPv6, and an interface too small for it, lack some: of
// these the kernel tells none.
func Read(i Interface) (Values, error) {
	t, err := reported(i.Described)
	if err != nil {
		return nil, err
	}
	list := make(Values, len(t))
	for _, family := range []string{"ipv4", "ipv6"} {
		if _, has := t[family+"/conf/forwarding"]; !has {
			continue
		}
		for _, folder := range []string{family + "/conf", family + "/neigh"} {
			if err := readFolder(list, folder, i.Name, t); err != nil {
				return nil, err
			}
		}
	}
	if aboveItsOwn(list[ipv6MTU], i.MTU) {
		delete(list, ipv6MTU)
	}
	return list, nil
}

// aboveItsOwn tells whether an IPv6 MTU is greater than the MTU of its interface, which no write can make it
// (addrconf.c:addrconf_sysctl_mtu). An ipvlan has such a one after its parent was given a smaller MTU, until
// it is brought up again (ipvlan_main.c:ipvlan_adjust_mtu tells nobody).
func aboveItsOwn(ipv6 string, mtu int) bool {
	n, err := strconv.Atoi(ipv6)
	return err == nil && n > mtu
}

// readFolder adds what a folder has: what was reported, and what only its files say.
func readFolder(list Values, folder, name string, t Values) error {
	keys, err := keys(folder, name)
	if err != nil {
		return err
	}
	dir, err := openFolder(filepath.Join(net, folder, name))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for _, key := range keys {
		if value, ok := t[key]; ok {
			list[key] = value
			continue
		}
		value, err := readAt(dir, filepath.Base(key))
		// A secret that was never set cannot be read (addrconf.c:addrconf_sysctl_stable_secret).
		if key == stableSecret && errors.Is(err, unix.EIO) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		list[key] = value
	}
	return nil
}

// folders has the keys of those that were looked at. To list one, the kernel makes an inode for each file, and has
// to find all of them again when the interface moves.
var folders sync.Map

// keys returns the sysctls that a folder has for an interface: the same for each that has any, in whatever namespace.
func keys(folder, name string) ([]string, error) {
	if known, is := folders.Load(folder); is {
		return known.([]string), nil
	}
	dir, err := os.Open(filepath.Join(net, folder, name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	files, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	files = inFolder(folder+"/", slices.DeleteFunc(files, derived))
	folders.Store(folder, files)
	return files, nil
}

// openFolder opens a folder for readAt. The way through /proc/sys/net takes the kernel the longer the more namespaces
// there are: it compares a name with that of each one's (proc_sysctl.c:proc_sys_compare).
func openFolder(path string) (dir int, err error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// ReadFile reads the file of a sysctl, with a third of the system calls of os.ReadFile.
func ReadFile(path string) (string, error) { return readAt(unix.AT_FDCWD, path) }

func readAt(dir int, path string) (string, error) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var text [256]byte // the longest is an IPv6 address
	n, err := unix.Read(fd, text[:])
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text[:n])), nil
}

// Before returns the sysctls as they must be while addresses are given. An address
// was tested for duplicates when it was given first; testing it again would
// leave it unusable for a second, and its GID with it.
func (want Values) Before() Values {
	list := maps.Clone(want)
	if _, ok := list[acceptDAD]; ok {
		list[acceptDAD] = "0"
	}
	return list
}

// Apply writes the sysctls that differ, and tells what the interface has then.
// One that it has beyond those that are wanted is the kernel's doing.
func Apply(i Interface, want Values) (have Values, err error) {
	if have, err = Read(i); err != nil {
		return nil, err
	}
	return have, write(i.Name, want, have)
}

// ApplyUp is Apply after the interface was brought up, which makes its IPv6 MTU
// the interface's own (addrconf.c:addrconf_notify), and gives it IPv6 sysctls if
// it had none. Then look looks at it again.
func ApplyUp(name string, want, have Values, look func() (Interface, error)) error {
	if _, ok := have[ipv6MTU]; !ok {
		i, err := look()
		if err != nil {
			return err
		}
		_, err = Apply(i, want)
		return err
	}
	text, err := ReadFile(Path(ipv6MTU, name))
	if err != nil {
		return fmt.Errorf("read a sysctl: %w", err)
	}
	have[ipv6MTU] = text
	return write(name, want, have)
}

func write(name string, want, have Values) error {
	for _, key := range want.Differing(have) {
		if err := os.WriteFile(Path(key, name), []byte(want[key]), 0); err != nil {
			return fmt.Errorf("restore a sysctl: %w", err)
		}
		have[key] = want[key]
	}
	return nil
}

// Differing returns the sysctls that are not what is wanted, in the order in which they must be written.
func (want Values) Differing(have Values) []string {
	var keys []string
	for key, value := range want {
		if have[key] != value {
			keys = append(keys, key)
		}
	}
	// Writing the secret sets the mode, which in turn cannot be had without one
	// (addrconf.c:addrconf_sysctl_addr_gen_mode).
	rank := func(key string) int {
		switch key {
		case stableSecret:
			return 0
		case addrGenMode:
			return 1
		}
		return 2
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	// A mode that changes while the interface is up makes it a new link local address.
	if slices.Contains(keys, stableSecret) && want[addrGenMode] != "" && !slices.Contains(keys, addrGenMode) {
		keys = slices.Insert(keys, 1, addrGenMode)
	}
	return keys
}

// SkipDAD makes the calling thread's namespace give new interfaces their IPv6
// addresses without testing them for duplicates, which takes a second each.
func SkipDAD() error {
	const path = "/proc/sys/net/ipv6/conf/default/accept_dad"
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.WriteFile(path, []byte("0"), 0)
}
