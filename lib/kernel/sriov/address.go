package sriov

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/vishvananda/netlink"

	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/words/hint"
)

// Address is what others reach a VF by: a MAC, or on InfiniBand two GUIDs as sysfs writes them. A
// VF's driver takes what the PF was told when it binds the VF, and no later.
type Address struct {
	MAC  string `json:"mac,omitempty"`
	Node string `json:"node_guid,omitempty"`
	Port string `json:"port_guid,omitempty"`
}

func (a Address) String() string {
	if a.MAC != "" {
		return "MAC " + a.MAC
	}
	return fmt.Sprintf("node GUID %s, port GUID %s", a.Node, a.Port)
}

// The addresses that gresnet gives VFs are made of their PF's node GUID, which no other PF has, of
// their numbers, and of the job's if they are for one. So the same VF has the same one after each
// boot. They are locally administered, and nobody's own.

// AddressOf returns the address that a PF's VF has when no job has it. guid is the PF's node GUID.
func (pf Link) AddressOf(guid string, vf int) Address {
	return pf.derived(fmt.Sprintf("gresnet VF %s %d", guid, vf))
}

// AddressFor returns the address that a PF's VF has while a job has it.
func (pf Link) AddressFor(guid string, vf int, job uint32) Address {
	return pf.derived(fmt.Sprintf("gresnet VF %s %d of job %d", guid, vf, job))
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

// ErrNoAddress means that a VF has no address of its own: its PF was never told one.
var ErrNoAddress = errors.New("its PF was never told an address")

// ReadAddress reads the address that a VF gets when its driver binds it. Not each kernel and driver says
// which GUIDs the PF was told, so on InfiniBand it is what the VF has; its RDMA device must be in the
// namespace whose /sys this is. A VF without an address is ErrNoAddress.
func ReadAddress(sys fs.FS, pf Link, vf int, rdma string) (Address, error) {
	if !pf.InfiniBand {
		a, err := Read(pf, vf)
		if err == nil && a.MAC == nil {
			err = ErrNoAddress
		}
		if err != nil {
			return Address{}, fmt.Errorf("read the MAC of VF %d of %s: %w", vf, pf.Name, err)
		}
		return Address{MAC: *a.MAC}, nil
	}
	a, err := readGUIDs(sys, rdma)
	if err == nil && (IsZero(a.Node) || IsZero(a.Port)) {
		err = ErrNoAddress
	}
	if err != nil {
		return Address{}, fmt.Errorf("read the GUIDs of VF %d of %s: %w", vf, pf.Name, err)
	}
	return a, nil
}

// readGUIDs reads the GUIDs of an RDMA device with one port, as each VF of InfiniBand is.
func readGUIDs(sys fs.FS, rdma string) (a Address, err error) {
	if a.Node, err = sysfs.NodeGUID(sys, rdma); err != nil {
		return Address{}, err
	}
	port, err := sysfs.PortGUID(sys, rdma, 1)
	if err != nil {
		return Address{}, err
	}
	a.Port = printGUID(port)
	return a, nil
}

// printGUID prints a GUID of eight bytes as sysfs does.
func printGUID(guid []byte) string {
	text := hex.EncodeToString(guid)
	return strings.Join([]string{text[:4], text[4:8], text[8:12], text[12:]}, ":")
}

// IsZero tells a GUID that nobody has given.
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
