package sriov

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"

	"gresnet/lib/base/hint"
)

// Address is what others reach a VF by: a MAC, or on InfiniBand two GUIDs as sysfs writes them. A
// VF's driver takes what the PF was told when it binds the VF, and no later.
type Address struct {
	MAC, Node, Port string
}

func (a Address) String() string {
	if a.MAC != "" {
		return "MAC " + a.MAC
	}
	return fmt.Sprintf("node GUID %s, port GUID %s", a.Node, a.Port)
}

// AddressOf returns the address that gresnet gives a PF's VF. It is made of the PF's node GUID, which no other PF has,
// and of the VF's number, so the VF has the same one after each boot. It is locally administered.
func (pf Link) AddressOf(guid string, vf int) Address {
	return pf.derived(fmt.Sprintf("gresnet VF %s %d", guid, vf))
}

// derived returns an individual address that is locally administered.
func (pf Link) derived(text string) Address {
	sum := sha256.Sum256([]byte(text))
	const local, group = 2, 1
	sum[0] = sum[0]&^group | local
	if !pf.InfiniBand {
		return Address{MAC: net.HardwareAddr(sum[:6]).String()}
	}
	guid := printGUID(sum[:8])
	return Address{Node: guid, Port: guid}
}

// printGUID prints a GUID of eight bytes as sysfs does.
func printGUID(guid []byte) string {
	text := hex.EncodeToString(guid)
	return strings.Join([]string{text[:4], text[4:8], text[8:12], text[12:]}, ":")
}

// IsZero tells a GUID that was never set.
func IsZero(guid string) bool { return strings.Trim(guid, "0:") == "" }

// SetAddress tells a PF the address of a VF. It counts from the VF's next bind.
func SetAddress(pf Link, vf int, a Address) error {
	if a.MAC != "" {
		return apply(pf, vf, Attributes{MAC: &a.MAC})
	}
	node, nodeErr := parseGUID(a.Node)
	port, portErr := parseGUID(a.Port)
	err := cmp.Or(nodeErr, portErr)
	var l netlink.Link
	if err == nil {
		l, err = netlink.LinkByIndex(pf.Index)
	}
	if err == nil {
		err = hint.Join(netlink.LinkSetVfNodeGUID(l, vf, node), netlink.LinkSetVfPortGUID(l, vf, port))
	}
	if err != nil {
		return fmt.Errorf("set the GUIDs of VF %d of %s: %w", vf, pf.Name, err)
	}
	return nil
}

// parseGUID parses a GUID as sysfs writes it.
func parseGUID(text string) (net.HardwareAddr, error) {
	guid, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	if err == nil && len(guid) != 8 {
		err = fmt.Errorf("%q is no GUID", text)
	}
	return guid, err
}
