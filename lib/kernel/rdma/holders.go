package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
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
var resources = []resource{
	{10, 19}, // RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP
	ids,
	{14, 46}, // …_RES_PD_GET, …_RES_PD
	contexts,
}

var (
	ids      = resource{cmdResIDs, 30}      // …_RES_CM_ID_GET, …_RES_CM_ID
	contexts = resource{cmdResContexts, 86} // …_RES_CTX_GET, …_RES_CTX; kernel 5.14
)

type resource struct {
	cmd   int
	table uint16
}

const (
	cmdResGet      = 9
	cmdResIDs      = 11
	cmdResContexts = 22

	attrResSummary     = 15
	attrResSummaryName = 17
	attrResSummaryCurr = 18
	attrResPID         = 28
	attrResKernName    = 29
	attrResDestination = 34
)

// Uses counts what processes have of a device: contexts, of which a process has one for all else that it
// does with the device, and ids of RDMA-CM. Contexts of the kernel's do not count; its ids do.
type Uses struct{ Contexts, IDs uint64 }

// Uses returns those of the namespace's devices, by their indices: an answer for each device, which is as long however
// many there are of either.
func (c *Conn) Uses() (map[uint32]Uses, error) {
	answers, err := c.all(cmdResGet)
	if err != nil {
		return nil, fmt.Errorf("count the users of RDMA devices: %w", err)
	}
	all := make(map[uint32]Uses, len(answers))
	for _, a := range answers {
		if all[indexIn(a)], err = usesIn(a); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// UsesOf returns those of one device; false if the namespace has none of that index.
func (c *Conn) UsesOf(index uint32) (u Uses, is bool, err error) {
	answers, err := c.send(cmdResGet, 0, ofDevice(index))
	if errors.Is(err, unix.EINVAL) {
		return u, false, nil // nldev.c:nldev_res_get_doit: not there, or not in this namespace
	}
	if err == nil && len(answers) == 1 {
		u, err = usesIn(answers[0])
		is = err == nil
	}
	if err != nil {
		err = fmt.Errorf("count the users of RDMA device %d: %w", index, err)
	}
	return u, is, err
}

func usesIn(a netlink.Attributes) (u Uses, err error) {
	err = entries(a.Value(attrResSummary), func(entry netlink.Attributes) {
		switch number := entry.Number(attrResSummaryCurr); entry.Text(attrResSummaryName) {
		case "ctx":
			u.Contexts = number
		case "cm_id":
			u.IDs = number
		}
	})
	return u, err
}

// ErrTooMany means that the users of a device were not listed to the end.
var ErrTooMany = errors.New("the kernel's list of its users is too long")

// Holders tells who uses a device. Users make that list as long as they like: so it keeps each holder
// once, and calls goOn for each entry. When that says no, Holders returns whom it has found, and
// ErrTooMany; close the connection then. It asks for no kind of resource whose count is zero; counted is nil
// if nobody counted.
func (c *Conn) Holders(index uint32, counted *Uses, goOn func(Holder) bool) ([]Holder, error) {
	found := map[Holder]bool{}
	var failed error
	for _, r := range resources {
		if counted != nil && (r == ids && counted.IDs == 0 || r == contexts && counted.Contexts == 0) {
			continue
		}
		err := c.socket.Each(clientNldev<<10|r.cmd, unix.NLM_F_DUMP, 0, ofDevice(index), func() {}, func(answer []byte) error {
			return r.read(answer, found, goOn)
		})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			// Before Linux 5.14 the kernel counts contexts and does not list them: who has one and nothing else is not told.
			if r == contexts && counted != nil && counted.Contexts > processes(found) {
				found[Holder{}] = true
			}
			continue // a kernel that does not tell of this resource
		}
		if errors.Is(err, netlink.ErrStop) {
			err = ErrTooMany
		}
		if err != nil {
			failed = fmt.Errorf("list the users of RDMA device %d: %w", index, err)
			break
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Kernel, b.Kernel))
	}), failed
}

// processes counts the processes among holders.
func processes(found map[Holder]bool) (n uint64) {
	for h := range found {
		if h.PID != 0 {
			n++
		}
	}
	return n
}

// read reads one message of a dump.
func (r resource) read(answer []byte, found map[Holder]bool, goOn func(Holder) bool) error {
	attributes, err := netlink.Parse(answer)
	if err != nil {
		return err
	}
	stop := false
	err = entries(attributes.Value(r.table), func(entry netlink.Attributes) {
		holder := Holder{PID: uint32(entry.Number(attrResPID)), Kernel: entry.Text(attrResKernName)}
		if stop = stop || !goOn(holder); !stop && (r != ids || !isServers(entry)) {
			found[holder] = true
		}
	})
	if stop {
		return netlink.ErrStop
	}
	return err
}

// isServers tells an id that RDMA-CM itself gives each device for a program that listens at all addresses
// (cma.c:cma_listen_on_dev), in whatever network namespace the two are. It has no port and no peer, and
// goes with the device's next move without asking anybody (cma_listen_handler). One of a server in the
// kernel is another matter: the node serves others by its HCAs.
func isServers(entry netlink.Attributes) bool {
	return entry.Number(attrPortIndex) == 0 && len(entry.Value(attrResDestination)) == 0 && entry.Text(attrResKernName) == ""
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
