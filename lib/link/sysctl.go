package link

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sysctls are an interface's own sysctls: "ipv4/conf/rp_filter" is
// net.ipv4.conf.NAME.rp_filter. An interface that arrives in a namespace has
// what that namespace's default is, so all are kept: which of them an
// administrator set cannot be told from the default at home, which may have
// been changed after the interface was made.
type Sysctls map[string]string

// sysctlFolders have one folder for each interface.
func sysctlFolders() []string {
	return []string{"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"}
}

func sysctlPath(key, name string) string {
	return filepath.Join("/proc/sys/net", filepath.Dir(key), name, filepath.Base(key))
}

const (
	stableSecret = "ipv6/conf/stable_secret"
	addrGenMode  = "ipv6/conf/addr_gen_mode"
	acceptDAD    = "ipv6/conf/accept_dad"
)

// derived tells sysctls that have no value of their own: multicast forwarding
// is a routing daemon's socket option, the others are a coarser view of one
// that is kept (neighbour.c:neigh_sysctl_template).
func derived(key string) bool {
	switch filepath.Base(key) {
	case "mc_forwarding", "base_reachable_time", "retrans_time", "unres_qlen":
		return true
	}
	return false
}

// readSysctls reads the sysctls of the interface with a name in the calling
// thread's namespace. A kernel without IPv6, and an interface too small for
// it, lack some.
func readSysctls(name string) (Sysctls, error) {
	list := Sysctls{}
	for _, folder := range sysctlFolders() {
		entries, err := os.ReadDir(filepath.Join("/proc/sys/net", folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list sysctls: %w", err)
		}
		for _, e := range entries {
			key := filepath.Join(folder, e.Name())
			if derived(key) {
				continue
			}
			value, err := readSysctl(sysctlPath(key, name))
			// A secret that was never set cannot be read (addrconf.c:addrconf_sysctl_stable_secret).
			if key == stableSecret && errors.Is(err, unix.EIO) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read a sysctl: %w", err)
			}
			list[key] = value
		}
	}
	return list, nil
}

// before has the sysctls as they must be while addresses are given. An address
// was tested for duplicates when it was given first; testing it again would
// leave it unusable for a second, and its GID with it.
func (want Sysctls) before() Sysctls {
	list := maps.Clone(want)
	if _, ok := list[acceptDAD]; ok {
		list[acceptDAD] = "0"
	}
	return list
}

// apply writes the sysctls that differ. One that the interface has beyond
// those that are wanted is the kernel's doing.
func (want Sysctls) apply(name string) error {
	have, err := readSysctls(name)
	if err != nil {
		return err
	}
	for _, key := range want.differing(have) {
		if err := os.WriteFile(sysctlPath(key, name), []byte(want[key]), 0); err != nil {
			return fmt.Errorf("restore a sysctl: %w", err)
		}
	}
	return nil
}

// differing are the sysctls that are not what is wanted, in the order in which they must be written.
func (want Sysctls) differing(have Sysctls) []string {
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

func readSysctl(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}
