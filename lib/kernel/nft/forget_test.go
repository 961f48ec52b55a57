package nft

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/netnstest"
)

// count returns how many connections of an address the kernel lists, -1 if it does not tell.
func count(a string) (n int) {
	if err := each(netip.MustParseAddr(a), func(*netlink.Socket, []byte) error { n++; return nil }); err != nil {
		return -1
	}
	return n
}

// send sends a packet, "FROM>TO".
func send(c string) error {
	from, to, _ := strings.Cut(c, ">")
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	s, err := d.Dial("udp4", to+":9")
	if err != nil {
		return err
	}
	_, err = s.Write([]byte("x"))
	return errors.Join(err, s.Close())
}

func TestTheConnectionsOfAnAddressAreForgottenAndNoOthersWhoeverChoosesThem(t *testing.T) {
	ways := map[string]func(netip.Addr) error{
		"as this kernel can": Forget,
		"from a list":        func(a netip.Addr) error { return each(a, forget) },
		"by the kernel":      forgetAll,
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			node := netnstest.New(t)
			node.Run(`nft 'table ip t { chain c { type filter hook output priority 0; ct state new accept; }; chain d { type nat hook output priority -100; ip daddr 198.19.9.9 dnat to 198.19.0.1; }; }'
for a in 198.19.0.1 198.19.0.2 198.19.0.11 198.18.0.1; do ip addr add $a/32 dev lo; done; ip route add 198.19.9.9 dev lo`)
			const from, to, led, others = "198.19.0.1>198.19.0.2", "198.19.0.2>198.19.0.1", "198.18.0.1>198.19.9.9", "198.19.0.11>198.19.0.2"
			err := node.Do(func() error {
				for _, c := range []string{from, to, led, others} {
					if err := send(c); err != nil {
						return err
					}
				}
				if mine, all := count("198.19.0.1"), count("198.19.0.11"); mine != 3 || all != 1 {
					return fmt.Errorf("there are %d connections of the address and %d of another", mine, all)
				}
				err := way(netip.MustParseAddr("198.19.0.1"))
				if name == "by the kernel" && errors.Is(err, errNoChoice) {
					err = nil // before Linux 6.8
				} else if mine := count("198.19.0.1"); mine != 0 {
					t.Errorf("%d connections are left", mine)
				}
				if other := count("198.19.0.11"); other != 1 {
					t.Errorf("%d connections of another address are left, wanted 1", other)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAKernelThatDoesNotChooseConnectionsRemovesNone(t *testing.T) {
	// It wants all of a connection's identity (nf_conntrack_netlink.c:ctnetlink_parse_tuple), and says so.
	m := thatComeFrom(netip.MustParseAddr("198.19.0.1"), tupleOriginal)
	list, err := netlink.Behind(m, genHead, "conntrack")
	if err != nil {
		t.Fatal(err)
	}
	if _, there := list.Find(tupleOriginal); !there {
		t.Errorf("the request has no identity: an older kernel would remove all connections: %x", m)
	}
	if err := netnstest.New(t).Do(func() error {
		s, err := netlink.Open(unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer s.Close()
		identity := netlink.Append([]byte{unix.AF_INET, 0, 0, 0}, unix.NLA_F_NESTED|tupleOriginal, list.Value(tupleOriginal))
		if _, err := s.Do(deleteConnection, unix.NLM_F_ACK, 0, identity); !isMissing(err) {
			t.Errorf("without a filter, as an older kernel reads it: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
