package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// classNet is the folder of sysfs that has the interfaces of one namespace.
var classNet = "/sys/class/net"

// bound is what the rest of the kernel has made of an interface, as sysfs tells it. A /sys of another
// namespace tells nothing.
type bound struct {
	Upper []int    // the indices of interfaces that stand on it or have it for a member, whatever their kinds are
	FCoE  []string // the names of FCoE's controllers on it
}

// bound reads what is bound to an interface.
func (c *Conn) bound(i Interface) (b bound, err error) {
	const tries = 4 // udev may rename the interfaces meanwhile
	for try := 1; ; try++ {
		b, err = readBound(i)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == tries {
			break
		}
		if i, err = c.Get(i.Index); err != nil {
			break
		}
	}
	if err != nil {
		return bound{}, fmt.Errorf("read what is bound to %s: %w", i.Name, err)
	}
	return b, nil
}

// readBound reads the entries of an interface's folder that the kernel makes for others: a link for each
// upper interface (dev.c:netdev_adjacent_sysfs_add), and a folder for each controller
// (fcoe_sysfs.c:fcoe_ctlr_device_add).
func readBound(i Interface) (b bound, err error) {
	folder := filepath.Join(classNet, i.Name)
	own, err := indexIn(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && own != i.Index {
		return bound{}, nil
	}
	if err != nil {
		return bound{}, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return bound{}, err
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "upper_"):
			upper, err := indexIn(filepath.Join(folder, e.Name()))
			if err != nil {
				return bound{}, err
			}
			b.Upper = append(b.Upper, upper)
		case strings.HasPrefix(e.Name(), "ctlr_"):
			b.FCoE = append(b.FCoE, e.Name())
		}
	}
	return b, nil
}

func indexIn(folder string) (int, error) {
	text, err := os.ReadFile(filepath.Join(folder, "ifindex"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
