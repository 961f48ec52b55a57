package link

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
	tipcVersion    = 1
	tipcBearerGet  = 4 // TIPC_NL_BEARER_GET
	tipcBearer     = 1 // TIPC_NLA_BEARER
	tipcBearerName = 1 // TIPC_NLA_BEARER_NAME
)

// bearers returns the names of the interfaces of the calling thread's namespace that have a bearer. It
// does not ask a kernel that has not loaded TIPC, which the question would load.
func bearers() ([]string, error) {
	if _, err := os.Stat("/proc/sys/net/tipc"); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s, number, err := netlink.OpenGeneric("TIPCv2")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if number == 0 {
		return nil, nil
	}
	answers, err := s.Do(int(number), unix.NLM_F_DUMP, number, []byte{tipcBearerGet, tipcVersion, 0, 0})
	if err != nil {
		return nil, fmt.Errorf("list the bearers of TIPC: %w", err)
	}
	return bearersIn(answers)
}

// bearersIn reads the names of bearers, as eth:roce0. Those of UDP, which are on no interface, have no
// name of one (bearer.c:bearer_name_validate).
func bearersIn(answers [][]byte) (names []string, err error) {
	for _, m := range answers {
		list, err := netlink.Parse(m[min(netlink.GenericHead, len(m)):])
		if err != nil {
			return nil, err
		}
		inner, err := list.Nested(tipcBearer)
		if err != nil {
			return nil, err
		}
		media, on, _ := strings.Cut(inner.Text(tipcBearerName), ":")
		if media == "eth" || media == "ib" {
			names = append(names, on)
		}
	}
	return names, nil
}
