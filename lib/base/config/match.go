package config

import (
	"fmt"
	"strings"

	"gresnet/lib/base/node"
)

// Match says which HCA of the node is meant.
type Match struct {
	Key   string // "pci", "guid" or "rdma"
	Value string // as sysfs writes it
}

// String returns the form that parseMatch reads.
func (m Match) String() string { return m.Key + "=" + m.Value }

// Matches tells whether an HCA is meant.
func (m Match) Matches(h node.HCA) bool {
	switch m.Key {
	case "pci":
		return h.PCI() == m.Value
	case "guid":
		return h.NodeGUID() == m.Value
	case "rdma":
		return h.Name == m.Value
	}
	return false
}

// parseMatch parses "pci=0000:3b:00.0" (the domain may be left out),
// "guid=0002:c903:00ab:cdef" (the colons may be left out) or "rdma=mlx5_0".
func parseMatch(text string) (Match, error) {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return Match{}, badMatch(text)
	}
	m := Match{Key: key}
	switch key {
	case "pci":
		m.Value = normalPCI(value)
	case "guid":
		m.Value = normalGUID(value)
	case "rdma":
		m.Value = normalName(value)
	}
	if m.Value == "" {
		return Match{}, badMatch(text)
	}
	return m, nil
}

func badMatch(text string) error {
	return fault(
		fmt.Sprintf("%q names no HCA", text),
		`GN148 write it like "pci=0000:3b:00.0", "guid=0002:c903:00ab:cdef" or "rdma=mlx5_0"`,
	)
}

// normalPCI returns an address as the kernel prints it (drivers/pci/probe.c:
// pci_setup_device, "%04x:%02x:%02x.%d"), or empty if it is none.
func normalPCI(text string) string {
	text = strings.ToLower(text)
	if strings.Count(text, ":") == 1 {
		text = "0000:" + text
	}
	domain, function, _ := strings.Cut(text, ":")
	// A domain that the kernel made up itself (VMD) has more than four digits.
	const most = 4
	if more := len(domain) - 4; 0 < more && more <= most && domain[0] != '0' && shaped(domain[:more], "xxxx"[:more]) {
		domain = domain[more:]
	}
	if !shaped(domain, "xxxx") || !shaped(function, "xx:xx.x") || function[3] > '1' || function[6] > '7' {
		return ""
	}
	return text
}

// normalGUID returns a GUID as sysfs writes it (drivers/infiniband/core/sysfs.c:
// node_guid_show), or empty if it is none. Tools print it as 0x0002c90300abcdef too.
func normalGUID(text string) string {
	text = strings.ToLower(text)
	if digits := strings.TrimPrefix(text, "0x"); shaped(digits, "xxxxxxxxxxxxxxxx") {
		return digits[:4] + ":" + digits[4:8] + ":" + digits[8:12] + ":" + digits[12:]
	}
	if !shaped(text, "xxxx:xxxx:xxxx:xxxx") {
		return ""
	}
	return text
}

// normalName returns the name of an RDMA device, or empty if it cannot be one.
func normalName(text string) string {
	const most = 63 // IB_DEVICE_NAME_MAX less the closing zero
	if len(text) > most || text == "." || text == ".." {
		return ""
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || c == '/' {
			return ""
		}
	}
	return text
}

// shaped tells whether a text is like a shape, in which x is a hexadecimal digit.
func shaped(text, shape string) bool {
	if len(text) != len(shape) {
		return false
	}
	for i := range len(shape) {
		if shape[i] == 'x' && !isHex(text[i]) || shape[i] != 'x' && text[i] != shape[i] {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
