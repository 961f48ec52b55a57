package link

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// mplsInput is a sysctl that an interface has where MPLS is.
const mplsInput = "mpls/conf/input"

// hasMPLS tells whether the namespace's kernel has MPLS: if not, the question for its routes
// would be answered with all others.
func (c *Conn) hasMPLS() (bool, error) {
	if c.mpls == nil {
		_, err := os.Stat("/proc/sys/net/mpls")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		has := err == nil
		c.mpls = &has
	}
	return *c.mpls, nil
}

// mplsSysctls adds what MPLS has of the interface. Not all kinds have it (af_mpls.c:mpls_dev_notify).
func (c *Conn) mplsSysctls(list Sysctls, name string) error {
	if has, err := c.hasMPLS(); err != nil || !has {
		return err
	}
	value, err := readFile(sysctlPath(mplsInput, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		list[mplsInput] = value
	}
	return err
}

// mplsRoutes are the routes of labels through the interface. The job has none: labels are the
// node's, and another namespace takes none until it is told how many (net.mpls.platform_labels).
func (c *Conn) mplsRoutes(index int) ([]Message, error) {
	if has, err := c.hasMPLS(); err != nil || !has {
		return nil, err
	}
	return c.routesOf(index, unix.AF_MPLS)
}
