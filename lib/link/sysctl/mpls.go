package sysctl

import (
	"errors"
	"io/fs"
	"os"
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

// readMPLS adds the interface's settings of MPLS. Not all kinds have it (af_mpls.c:mpls_dev_notify).
func (c *Conn) readMPLS(list Values, name string) error {
	if has, err := c.hasMPLS(); err != nil || !has {
		return err
	}
	value, err := ReadFile(Path(mplsInput, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		list[mplsInput] = value
	}
	return err
}
