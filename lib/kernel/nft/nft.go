// Package nft makes and removes the nftables tables that a lease has on the node.
//
// It acts in the network namespace of the calling thread.
package nft

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
)

// missing returns the error of a kernel without nftables.
func missing() error {
	return hint.With(errors.New("this kernel has no nftables"), "GN215 modprobe nf_tables, or install the kernel's package that has it")
}

// Try returns an error if no table can be made.
func Try() error {
	c, err := open()
	if err != nil {
		return err
	}
	if _, err := c.ListTables(); isMissing(err) {
		return missing()
	}
	return nil
}

// create makes a table with all that fill adds, in one transaction. An existing table is therefore
// complete, and create leaves it as it is.
func create(family nftables.TableFamily, name string, fill func(*nftables.Conn, *nftables.Table)) error {
	c, err := open(nftables.AsLasting()) // one socket for the look and the transaction
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	switch _, err := c.ListTableOfFamily(name, family); {
	case isMissing(err):
		return missing()
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	fill(c, c.CreateTable(&nftables.Table{Name: name, Family: family}))
	return c.Flush()
}

// remove removes tables in one transaction, because the kernel waits for its readers each time. It succeeds if there
// are no such tables.
func remove(family nftables.TableFamily, names []string) error {
	for {
		there, err := tryRemove(family, names)
		if err == nil || !errors.Is(err, unix.ENOENT) || !there {
			return err
		}
		// Somebody removed one of them meanwhile, so this transaction removed none.
	}
}

// tryRemove removes tables in one transaction, and tells whether there were any.
func tryRemove(family nftables.TableFamily, names []string) (any bool, err error) {
	c, err := open(nftables.AsLasting())
	if err != nil {
		return false, err
	}
	// The kernel lets no socket be closed before the last reader of a removed table has gone. The table
	// itself is gone as soon as Flush returns.
	defer func() { go c.CloseLasting() }()
	for _, name := range names {
		t, err := c.ListTableOfFamily(name, family)
		switch {
		case err == nil:
			c.DelTable(t)
			any = true
		case !errors.Is(err, unix.ENOENT) && !isMissing(err):
			return any, fmt.Errorf("look for the nftables table %s: %w", name, err)
		}
	}
	if !any {
		return false, nil
	}
	if err := c.Flush(); err != nil {
		return true, fmt.Errorf("remove the nftables tables %s: %w", strings.Join(names, ", "), err)
	}
	return true, nil
}

// isMissing tells whether a request failed because the kernel has no nftables
// (net/netfilter/nfnetlink.c:nfnetlink_rcv_msg, and nfnetlink_rcv_batch's EOPNOTSUPP).
func isMissing(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT)
}

func open(options ...nftables.ConnOption) (*nftables.Conn, error) {
	return nftables.New(append(options, nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetDeadline(time.Now().Add(poll.NFTables))
	}))...)
}
