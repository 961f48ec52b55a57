// Package nft makes and removes the nftables tables that a lease has on the node.
//
// It acts in the network namespace of the calling thread.
package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
)

// answerTime bounds a transaction. The kernel has all answers ready when the
// request is sent, so only a missing answer takes that long.
const answerTime = 30 * time.Second

// Masquerade lets what comes from one address leave the node under the node's own, as
//
//	nft 'table ip TABLE { chain postrouting { type nat hook postrouting priority srcnat; ip saddr ADDR masquerade; } }'
//
// A table that is there already stays as it is.
func Masquerade(table string, from netip.Addr) error {
	err := create(nftables.TableFamilyIPv4, table, func(c *nftables.Conn, t *nftables.Table) {
		addMasquerade(c, t, from)
	})
	if err != nil {
		return fmt.Errorf("masquerade %s: %w", from, err)
	}
	return nil
}

// source matches the source address, at byte 12 of an IPv4 header.
func source(a netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Cmp{Register: unix.NFT_REG_1, Op: expr.CmpOpEq, Data: a.AsSlice()},
	}
}

// missing means that no table can be made.
func missing() error {
	return hint.With(errors.New("this kernel has no nftables"), "modprobe nf_tables, or install the kernel's package that has it")
}

// Try is an error if no table could be made.
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

// create makes a table with what fill adds to it, all in one transaction.
// A table that is there was made so, and stays as it is.
func create(family nftables.TableFamily, name string, fill func(*nftables.Conn, *nftables.Table)) error {
	c, err := open()
	if err != nil {
		return err
	}
	switch _, err := c.ListTableOfFamily(name, family); {
	case isMissing(err):
		return missing()
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	fill(c, c.CreateTable(&nftables.Table{Name: name, Family: family}))
	return c.Flush()
}

// Remove removes tables of IPv4 with all that is in them, in one transaction: the kernel waits for
// its readers each time. No such table is success.
func Remove(names ...string) error { return remove(nftables.TableFamilyIPv4, names) }

func remove(family nftables.TableFamily, names []string) error {
	for {
		there, err := tryRemove(family, names)
		if err == nil || !errors.Is(err, unix.ENOENT) || !there {
			return err
		}
		// Somebody removed one of them meanwhile, and so none was removed here.
	}
}

// tryRemove does so, and tells whether any was there.
func tryRemove(family nftables.TableFamily, names []string) (any bool, err error) {
	c, err := open()
	if err != nil {
		return false, err
	}
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

func open() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetDeadline(time.Now().Add(answerTime))
	}))
}
