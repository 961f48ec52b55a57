// Package nat lets what comes from one address leave the node under the node's
// own. It speaks nftables' netlink protocol: three messages are all that it
// takes, the program nft is not on every node, and a library for all of
// nftables would be larger than the rest of gresnet.
//
// It acts in the network namespace of the calling thread.
package nat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

const chain = "postrouting"

// Masquerade makes a table of its own with the one rule, as
//
//	nft 'table ip TABLE { chain postrouting { type nat hook postrouting priority srcnat; ip saddr ADDR masquerade; } }'
//
// One that is there has the rule already.
func Masquerade(table string, from netip.Addr) error {
	err := transact(
		message{unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE | unix.NLM_F_EXCL, text(nil, unix.NFTA_TABLE_NAME, table)},
		message{unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, newChain(table)},
		message{unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE | unix.NLM_F_APPEND, newRule(table, from)},
	)
	if errors.Is(err, unix.EEXIST) {
		return nil // a transaction is done whole or not at all
	}
	if err != nil {
		return fmt.Errorf("masquerade %s: %w", from, err)
	}
	return nil
}

// Remove removes a table; one that is not there is success.
func Remove(table string) error {
	err := transact(message{unix.NFT_MSG_DELTABLE, 0, text(nil, unix.NFTA_TABLE_NAME, table)})
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP):
		return nil // a kernel without nftables has no table
	}
	return fmt.Errorf("remove the nftables table %s: %w", table, err)
}

func newChain(table string) []byte {
	const postrouting, srcnat = 4, 100 // linux/netfilter.h NF_INET_POST_ROUTING, linux/netfilter_ipv4.h NF_IP_PRI_NAT_SRC
	hook := number(nil, unix.NFTA_HOOK_HOOKNUM, postrouting)
	hook = number(hook, unix.NFTA_HOOK_PRIORITY, srcnat)
	m := text(nil, unix.NFTA_CHAIN_TABLE, table)
	m = text(m, unix.NFTA_CHAIN_NAME, chain)
	m = attribute(m, unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, hook)
	return text(m, unix.NFTA_CHAIN_TYPE, "nat")
}

// newRule compares the source address, at byte 12 of an IPv4 header.
func newRule(table string, from netip.Addr) []byte {
	load := number(nil, unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
	load = number(load, unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER)
	load = number(load, unix.NFTA_PAYLOAD_OFFSET, 12)
	load = number(load, unix.NFTA_PAYLOAD_LEN, 4)
	same := number(nil, unix.NFTA_CMP_SREG, unix.NFT_REG_1)
	same = number(same, unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
	same = attribute(same, unix.NFTA_CMP_DATA|unix.NLA_F_NESTED, attribute(nil, unix.NFTA_DATA_VALUE, from.AsSlice()))
	var all []byte
	all = expression(all, "payload", load)
	all = expression(all, "cmp", same)
	all = expression(all, "masq", nil)
	m := text(nil, unix.NFTA_RULE_TABLE, table)
	m = text(m, unix.NFTA_RULE_CHAIN, chain)
	return attribute(m, unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, all)
}

func expression(m []byte, name string, data []byte) []byte {
	e := text(nil, unix.NFTA_EXPR_NAME, name)
	e = attribute(e, unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, data)
	return attribute(m, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, e)
}

func text(m []byte, kind uint16, value string) []byte {
	return attribute(m, kind, append([]byte(value), 0))
}

// number is one in network order, as all of nftables' are.
func number(m []byte, kind uint16, value uint32) []byte {
	return attribute(m, kind, binary.BigEndian.AppendUint32(nil, value))
}

func attribute(m []byte, kind uint16, value []byte) []byte {
	m = binary.NativeEndian.AppendUint16(m, uint16(unix.SizeofNlAttr+len(value)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = append(m, value...)
	for len(m)%4 != 0 {
		m = append(m, 0)
	}
	return m
}
