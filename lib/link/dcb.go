package link

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// What linux/dcbnl.h numbers.
const (
	dcbHead = 4 // sizeof(struct dcbmsg): a family, a command and padding

	dcbIEEESet = 20 // DCB_CMD_IEEE_SET
	dcbIEEEGet = 21 // DCB_CMD_IEEE_GET

	dcbIfName  = 1  // DCB_ATTR_IFNAME
	dcbIEEE    = 13 // DCB_ATTR_IEEE
	dcbMode    = 14 // DCB_ATTR_DCBX
	dcbApp     = 3  // DCB_ATTR_IEEE_APP_TABLE
	dcbRewrite = 12 // DCB_ATTR_DCB_REWR_TABLE

	dcbManaged = 0x10 // DCB_CAP_DCBX_LLD_MANAGED
)

// priorities are the entries of the tables of data center bridging that the kernel keeps
// for a driver: which priority the packets of an application have, and which mark those of
// a priority are given. It empties them when the interface leaves a namespace
// (dcbnl.c:dcbnl_netdevice_event); all else of DCB the driver keeps. Each is the table's
// attribute with that entry alone. Where firmware speaks DCBX they are its own.
func (c *Conn) priorities(name string) ([]Message, error) {
	answers, err := c.send(unix.RTM_GETDCB, 0, unix.RTM_GETDCB, dcbRequest(dcbIEEEGet, name))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // the driver has no DCB, or the kernel
	}
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	return readPriorities(answers[0])
}

func readPriorities(answer []byte) (all []Message, err error) {
	list, err := netlink.Parse(answer[min(dcbHead, len(answer)):])
	if err != nil {
		return nil, err
	}
	if mode := list.Value(dcbMode); len(mode) == 1 && mode[0]&dcbManaged != 0 {
		return nil, nil
	}
	tables, err := list.Nested(dcbIEEE)
	if err != nil {
		return nil, err
	}
	for t := range tables.All() {
		kind := t.Type()
		if kind != dcbApp && kind != dcbRewrite {
			continue
		}
		entries, err := netlink.Parse(t.Value)
		if err != nil {
			return nil, err
		}
		for e := range entries.All() {
			all = append(all, netlink.Append(nil, kind, netlink.Append(nil, e.Kind, e.Value)))
		}
	}
	return all, nil
}

func dcbRequest(command byte, name string) []byte {
	return netlink.AppendText([]byte{unix.AF_UNSPEC, command, 0, 0}, dcbIfName, name)
}

// priority names an entry.
func (m Message) priority() string {
	const entry = 2 * unix.SizeofRtAttr // what is behind its heads: struct dcb_app
	if len(m) < entry+4 {
		return "(empty)"
	}
	return fmt.Sprintf("%d of selector %d, protocol %d", m[entry+1], m[entry], native.Uint16(m[entry+2:]))
}

// applyPriorities gives the interface the entries that it lacks.
func (c *Conn) applyPriorities(name string, want []Message) error {
	if len(want) == 0 {
		return nil
	}
	have, err := c.priorities(name)
	if err != nil {
		return fmt.Errorf("read the DCB priorities of %s: %w", name, err)
	}
	lack := missing(want, have, Message.key)
	if len(lack) == 0 {
		return nil
	}
	// The kernel puts what comes in front of what is there (dcbnl.c:dcb_app_add).
	slices.Reverse(lack)
	if err := c.setPriorities(name, lack); err != nil {
		return fmt.Errorf("set the DCB priorities of %s: %w", name, err)
	}
	return nil
}

func (c *Conn) setPriorities(name string, list []Message) error {
	request := netlink.Append(dcbRequest(dcbIEEESet, name), dcbIEEE, tablesOf(list))
	answers, err := c.send(unix.RTM_SETDCB, 0, unix.RTM_SETDCB, request)
	if err != nil || len(answers) == 0 {
		return err
	}
	answer, err := netlink.Parse(answers[0][min(dcbHead, len(answers[0])):])
	if err != nil {
		return err
	}
	// What came of it is the low byte of the kernel's error (dcbnl.c:dcbnl_ieee_set).
	if v := answer.Value(dcbIEEE); len(v) == 1 && v[0] != 0 {
		return syscall.Errno(-int8(v[0]))
	}
	return nil
}

// tablesOf are the tables with some entries.
func tablesOf(list []Message) (tables []byte) {
	for _, kind := range []uint16{dcbApp, dcbRewrite} {
		var entries []byte
		for _, m := range list {
			if native.Uint16(m[2:]) == kind {
				entries = append(entries, m[unix.SizeofRtAttr:]...)
			}
		}
		if entries != nil {
			tables = netlink.Append(tables, kind, entries)
		}
	}
	return tables
}
