package rdma

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Holder is somebody who uses a device: a process, or a part of the kernel.
type Holder struct {
	PID    uint32 // 0 if it is the kernel, or in a pid namespace that this one does not see
	Kernel string // the kernel module
}

// Resource dumps, each with the table that it answers with: queue pairs,
// connections, protection domains. Who has any has a device in use.
var resources = []struct {
	cmd   int
	table uint16
}{
	{10, 19}, // RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP
	{11, 30}, // …_RES_CM_ID_GET, …_RES_CM_ID
	{14, 46}, // …_RES_PD_GET, …_RES_PD
}

const (
	attrResPID      = 28
	attrResKernName = 29
)

// Holders tells who uses a device.
func (c *Conn) Holders(index uint32) ([]Holder, error) {
	var holders []Holder
	for _, r := range resources {
		answers, err := c.send(r.cmd, unix.NLM_F_DUMP, u32(attrDevIndex, index))
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			continue // a kernel that does not tell of this resource
		}
		if err != nil {
			return nil, fmt.Errorf("list the users of RDMA device %d: %w", index, err)
		}
		for _, a := range answers {
			found, err := holdersIn(a[r.table])
			if err != nil {
				return nil, err
			}
			holders = append(holders, found...)
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		if a.PID != b.PID {
			return int(a.PID) - int(b.PID)
		}
		if a.Kernel < b.Kernel {
			return -1
		}
		return 1
	})
	return slices.Compact(holders), nil
}

// holdersIn reads a table of resources: nested entries of one number each.
func holdersIn(table []byte) ([]Holder, error) {
	var holders []Holder
	for len(table) >= unix.SizeofRtAttr {
		size := int(native.Uint16(table))
		if size < unix.SizeofRtAttr || size > len(table) {
			return nil, fmt.Errorf("RDMA resource entry has length %d, %d bytes are left", size, len(table))
		}
		entry, err := parse(table[unix.SizeofRtAttr:size])
		if err != nil {
			return nil, err
		}
		holders = append(holders, Holder{PID: entry.u32(attrResPID), Kernel: entry.str(attrResKernName)})
		table = table[min((size+3)&^3, len(table)):]
	}
	return holders, nil
}
