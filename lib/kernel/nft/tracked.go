package nft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/google/nftables"
)

// Tracked returns how many connections the kernel tracks at most. It has the kernel load the module
// that tracks them.
func Tracked() (int, error) {
	n, err := readTracked()
	if !errors.Is(err, fs.ErrNotExist) {
		return n, err
	}
	// A rule that needs the module, in a table that no transaction leaves behind.
	err = create(nftables.TableFamilyIPv4, "gresnet_tracked", func(c *nftables.Conn, t *nftables.Table) {
		add(c, c.AddChain(&nftables.Chain{Name: "new", Table: t}), nil, isNew())
		c.DelTable(t)
	})
	if err != nil {
		return 0, fmt.Errorf("have the kernel track connections: %w", err)
	}
	return readTracked()
}

func readTracked() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
