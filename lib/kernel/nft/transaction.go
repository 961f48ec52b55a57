package nft

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	library "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// socket has the kernel carry out transactions.
type socket struct {
	*netlink.Socket
	transaction []netlink.Message
}

// errTaken is what nftables is told that sends a transaction.
var errTaken = errors.New("the transaction is taken")

// change calls f with a connection that collects a transaction, and a socket that commits it. nftables itself has the
// kernel answer each message, and makes several system calls for each answer. WithTestDial, which it has for tests, is the
// only way to have its messages without sending them.
func change(f func(*socket, *nftables.Conn) error) error {
	kernel, err := netlink.Open(unix.NETLINK_NETFILTER)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return missing()
	}
	if err != nil {
		return fmt.Errorf("open nfnetlink: %w", err)
	}
	s := &socket{Socket: kernel}
	c, err := nftables.New(nftables.WithTestDial(s.take))
	if err == nil {
		err = f(s, c)
	}
	// The kernel lets no socket be closed before the last reader of a removed table has gone. The table
	// itself is gone as soon as the kernel has answered.
	go s.Close()
	return err
}

// take takes a transaction that nftables has put together.
func (s *socket) take(all []library.Message) ([]library.Message, error) {
	for _, m := range all {
		flags := m.Header.Flags &^ library.Acknowledge
		s.transaction = append(s.transaction, netlink.Message{Kind: int(m.Header.Type), Flags: int(flags), Body: m.Data})
	}
	return nil, errTaken
}

// commit carries out what is collected, all of it or nothing.
func (s *socket) commit(c *nftables.Conn) error {
	if err := c.Flush(); !errors.Is(err, errTaken) {
		return err
	}
	return s.Transact(s.transaction)
}

// has tells whether there is a table.
func (s *socket) has(family nftables.TableFamily, name string) (bool, error) {
	const get = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE
	_, err := s.Do(get, 0, 0, netlink.AppendText([]byte{byte(family), 0, 0, 0}, unix.NFTA_TABLE_NAME, name))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}
