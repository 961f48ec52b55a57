package sriov

import (
	"crypto/sha256"
	"fmt"
	"net"
)

// The addresses of VFs are made of their PF's node GUID, which no other PF has, and of their
// numbers: so they are the same after each boot. They are locally administered, and nobody's own.

// MACOf is the MAC of a PF's VF.
func MACOf(pfGUID string, vf int) string {
	mac := net.HardwareAddr(derived(pfGUID, vf)[:6])
	return mac.String()
}

// GUIDOf is the node and port GUID of a PF's VF.
func GUIDOf(pfGUID string, vf int) GUID { return GUID(derived(pfGUID, vf)[:8]) }

// derived is a text of bytes that begins as an individual address which is locally administered.
func derived(pfGUID string, vf int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "gresnet VF %s %d", pfGUID, vf))
	const local, group = 2, 1
	sum[0] = sum[0]&^group | local
	return sum[:]
}
