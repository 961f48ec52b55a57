package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
)

// Sought is an IPv4 packet that Watch knows by its addresses, its protocol and its length.
type Sought struct {
	From, To netip.Addr
	Protocol byte
	Length   int // of the packet with its IPv4 header
}

// Watch counts packets that have passed all other chains for forwarded packets, or for those that the
// node takes itself. It drops them there.
type Watch struct {
	conn   *nftables.Conn
	chains []*nftables.Chain
	rules  int
}

// ownedBySocket is NFT_TABLE_F_OWNER (linux/netfilter/nf_tables.h, Linux 5.12): the kernel removes the
// table when the socket that made it is closed, or its process ends.
const ownedBySocket = 1 << 1

// NewWatch makes a table that goes with the Watch:
//
//	nft 'table ip TABLE { flags owner;
//	  chain forward { type filter hook forward priority 2147483647; ip saddr FROM ip daddr TO meta l4proto PROTOCOL ip length LENGTH counter drop; … }
//	  chain input   { type filter hook input priority 2147483647; the same } }'
func NewWatch(table string, packets []Sought) (*Watch, error) {
	var socket *netlink.Conn
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(s *netlink.Conn) error {
		socket = s
		return s.SetDeadline(time.Now().Add(poll.NFTables))
	}))
	if err != nil {
		return nil, err
	}
	w := &Watch{conn: c, rules: len(packets)}
	if err := makeOwned(socket, table); err != nil {
		w.Close()
		return nil, err
	}
	t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
	last := nftables.ChainPriority(math.MaxInt32)
	for name, hook := range map[string]*nftables.ChainHook{"forward": nftables.ChainHookForward, "input": nftables.ChainHookInput} {
		chain := c.AddChain(&nftables.Chain{Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: &last})
		w.chains = append(w.chains, chain)
		for _, p := range packets {
			drop(c, chain, source(p.From), address(destinationAddress, expr.CmpOpEq, p.To), protocol(expr.CmpOpEq, p.Protocol), length(p.Length), []expr.Any{&expr.Counter{}})
		}
	}
	if err := c.Flush(); err != nil {
		w.Close()
		return nil, fmt.Errorf("count packets: %w", err)
	}
	return w, nil
}

// makeOwned makes an empty table that its socket owns. Package nftables cannot say that.
func makeOwned(socket *netlink.Conn, table string) error {
	const batchBegin, batchEnd = unix.NFNL_MSG_BATCH_BEGIN, unix.NFNL_MSG_BATCH_END
	message := func(kind int, flags netlink.HeaderFlags, family, subsystem byte, body []byte) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | flags}, Data: append([]byte{family, 0, 0, subsystem}, body...)}
	}
	body, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(table + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: []byte{0, 0, 0, ownedBySocket}},
	})
	if err == nil {
		_, err = socket.SendMessages([]netlink.Message{
			message(batchBegin, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
			message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, netlink.Acknowledge|netlink.Create|netlink.Excl, unix.NFPROTO_IPV4, 0, body),
			message(batchEnd, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
		})
	}
	if err == nil {
		_, err = socket.Receive()
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return errors.New("another check does so now")
	case isMissing(err):
		return hint.With(errors.New("this kernel has no nftables whose tables go with a program"), "GN831 take Linux 5.12 or later, with nf_tables")
	}
	return err
}

// length matches the length of an IPv4 packet.
func length(n int) []expr.Any {
	const total = 2
	return []expr.Any{
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: total, Len: 2},
		compare(expr.CmpOpEq, binary.BigEndian.AppendUint16(nil, uint16(n))),
	}
}

// Seen tells for each packet whether it has come.
func (w *Watch) Seen() ([]bool, error) {
	seen := make([]bool, w.rules)
	for _, chain := range w.chains {
		rules, err := w.conn.GetRules(chain.Table, chain)
		if err == nil && len(rules) != w.rules {
			err = fmt.Errorf("it has %d rules, not %d", len(rules), w.rules)
		}
		if err != nil {
			return nil, fmt.Errorf("read the counters of the chain %s: %w", chain.Name, err)
		}
		for i, r := range rules {
			for _, e := range r.Exprs {
				if c, is := e.(*expr.Counter); is && c.Packets > 0 {
					seen[i] = true
				}
			}
		}
	}
	return seen, nil
}

// Close removes the table.
func (w *Watch) Close() error { return w.conn.CloseLasting() }
