package rdma

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// Holder is somebody who uses a device: a process, or a part of the kernel. It is the zero
// Holder if the process that began to use it has ended, and another one goes on: one that
// was given a descriptor.
type Holder struct {
	PID    uint32 // 0 if it is the kernel, has ended, or is in a pid namespace that this one does not see
	Kernel string // the kernel module
}

// Resource dumps, each with the table that it answers with: queue pairs,
// connections, protection domains, contexts. Who has any has a device in use.
var resources = []struct {
	cmd   int
	table uint16
}{
	{10, 19}, // RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP
	{11, 30}, // …_RES_CM_ID_GET, …_RES_CM_ID
	{14, 46}, // …_RES_PD_GET, …_RES_PD
	{22, 86}, // …_RES_CTX_GET, …_RES_CTX
}

const (
	cmdResGet = 9

	attrResSummary     = 15
	attrResSummaryName = 17
	attrResSummaryCurr = 18
	attrResPID         = 28
	attrResKernName    = 29
)

// Used are the indices of devices that a process may use: those with a context, which a
// process has for all else that it does with a device, or with a connection. It is one
// request for all devices of the namespace.
func (c *Conn) Used() (indices []uint32, err error) {
	answers, err := c.send(cmdResGet, unix.NLM_F_DUMP, nil)
	if err != nil {
		return nil, fmt.Errorf("count the users of RDMA devices: %w", err)
	}
	for _, a := range answers {
		used := false
		err := entries(a.Value(attrResSummary), func(entry netlink.Attributes) {
			switch entry.Text(attrResSummaryName) {
			case "ctx", "cm_id":
				used = used || entry.Number(attrResSummaryCurr) > 0
			}
		})
		if err != nil {
			return nil, err
		}
		if used {
			indices = append(indices, uint32(a.Number(attrDevIndex)))
		}
	}
	return indices, nil
}

// Holders tells who uses a device.
func (c *Conn) Holders(index uint32) ([]Holder, error) {
	var holders []Holder
	for _, r := range resources {
		answers, err := c.send(r.cmd, unix.NLM_F_DUMP, ofDevice(index))
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			continue // a kernel that does not tell of this resource
		}
		if err != nil {
			return nil, fmt.Errorf("list the users of RDMA device %d: %w", index, err)
		}
		for _, a := range answers {
			found, err := holdersIn(a.Value(r.table))
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

// holdersIn reads a table of resources.
func holdersIn(table []byte) ([]Holder, error) {
	var holders []Holder
	err := entries(table, func(entry netlink.Attributes) {
		holders = append(holders, Holder{PID: uint32(entry.Number(attrResPID)), Kernel: entry.Text(attrResKernName)})
	})
	if err != nil {
		return nil, err
	}
	return holders, nil
}

// entries reads a table of nested entries of one number each.
func entries(table []byte, read func(netlink.Attributes)) error {
	list, err := netlink.Parse(table)
	if err != nil {
		return err
	}
	for a := range list.All() {
		entry, err := netlink.Parse(a.Value)
		if err != nil {
			return err
		}
		read(entry)
	}
	return nil
}
