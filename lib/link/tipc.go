// Package tipc reads which interfaces TIPC has for its bearers.
package tipc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Of linux/tipc_netlink.h.
const (
	family    = "TIPCv2"
	version   = 1
	bearerGet = 4 // TIPC_NL_BEARER_GET
	bearer    = 1 // TIPC_NLA_BEARER
	name      = 1 // TIPC_NLA_BEARER_NAME
)

// sysctls is a folder that the kernel has while TIPC is loaded.
const sysctls = "/proc/sys/net/tipc"

// Interfaces returns the names of the interfaces of the calling thread's namespace that have a bearer. It
// does not ask a kernel that has not loaded TIPC, which the question would load.
func Interfaces() ([]string, error) {
	if _, err := os.Stat(sysctls); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s, number, err := netlink.OpenGeneric(family)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if number == 0 {
		return nil, nil
	}
	answers, err := s.Do(int(number), unix.NLM_F_DUMP, number, []byte{bearerGet, version, 0, 0})
	if err != nil {
		return nil, fmt.Errorf("list the bearers of TIPC: %w", err)
	}
	return interfaces(answers)
}

// interfaces reads the names of bearers, as eth:roce0. Those of UDP, which are on no interface, have no
// name of one (bearer.c:bearer_name_validate).
func interfaces(answers [][]byte) (names []string, err error) {
	for _, m := range answers {
		list, err := netlink.Parse(m[min(netlink.GenericHead, len(m)):])
		if err != nil {
			return nil, err
		}
		inner, err := list.Nested(bearer)
		if err != nil {
			return nil, err
		}
		media, on, _ := strings.Cut(inner.Text(name), ":")
		if media == "eth" || media == "ib" {
			names = append(names, on)
		}
	}
	return names, nil
}
