package tc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// What linux/dcbnl.h numbers.
const (
	dcbHead = 4 // sizeof(struct dcbmsg): a family, a command and padding

	ieeeSet = 20 // DCB_CMD_IEEE_SET
	ieeeGet = 21 // DCB_CMD_IEEE_GET
	ieeeDel = 27 // DCB_CMD_IEEE_DEL

	attrIfName  = 1  // DCB_ATTR_IFNAME
	attrIEEE    = 13 // DCB_ATTR_IEEE
	attrMode    = 14 // DCB_ATTR_DCBX
	attrApp     = 3  // DCB_ATTR_IEEE_APP_TABLE
	attrRewrite = 12 // DCB_ATTR_DCB_REWR_TABLE

	managed = 0x10 // DCB_CAP_DCBX_LLD_MANAGED
)

// Priority is an entry of the tables of data center bridging that the kernel keeps for a driver:
// which priority the packets of an application have, or which mark those of a priority are given.
// It is the table's attribute with that entry alone.
type Priority []byte

// String names an entry.
func (p Priority) String() string {
	const entry = 2 * unix.SizeofRtAttr // what is behind its heads: struct dcb_app
	if len(p) < entry+4 {
		return "(empty)"
	}
	return fmt.Sprintf("%d of selector %d, protocol %d", p[entry+1], p[entry], nativeDCB.Uint16(p[entry+2:]))
}

var nativeDCB = binary.NativeEndian

// ReadPriorities reads the entries of an interface. The kernel empties the tables when the interface leaves
// a namespace (dcbnl.c:dcbnl_netdevice_event); all else of DCB the driver keeps. Where firmware
// speaks DCBX they are its own.
func ReadPriorities(r *netlink.Route, name string) ([]Priority, error) {
	answers, err := r.Send(unix.RTM_GETDCB, 0, unix.RTM_GETDCB, request(ieeeGet, name))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // the driver has no DCB, or the kernel
	}
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	return parse(answers[0])
}

// parse reads the entries of an answer.
func parse(answer []byte) (all []Priority, err error) {
	list, err := netlink.Behind(answer, dcbHead, "DCB")
	if err != nil {
		return nil, err
	}
	if mode := list.Value(attrMode); len(mode) == 1 && mode[0]&managed != 0 {
		return nil, nil
	}
	tables, err := list.Nested(attrIEEE)
	if err != nil {
		return nil, err
	}
	for t := range tables.All() {
		kind := t.Type()
		if kind != attrApp && kind != attrRewrite {
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

// request returns the head of a request about an interface.
func request(command byte, name string) []byte {
	return netlink.AppendText([]byte{unix.AF_UNSPEC, command, 0, 0}, attrIfName, name)
}

// ApplyPriorities gives the interface the entries that it lacks.
func ApplyPriorities(r *netlink.Route, name string, want []Priority) error {
	if len(want) == 0 {
		return nil
	}
	have, err := ReadPriorities(r, name)
	if err != nil {
		return fmt.Errorf("read the DCB priorities of %s: %w", name, err)
	}
	lack := netlink.Missing(want, have, netlink.Key)
	if len(lack) == 0 {
		return nil
	}
	// The kernel puts what comes in front of what is there (dcbnl.c:dcb_app_add).
	slices.Reverse(lack)
	if err := send(r, ieeeSet, name, lack); err != nil {
		return fmt.Errorf("set the DCB priorities of %s: %w", name, err)
	}
	return nil
}

// ClearPriorities deletes all entries, as a move to another namespace does. That tells the driver nothing, and one may count
// requests: with mlx5 a port trusts DSCP for ever then (en_dcbnl.c:mlx5e_dcbnl_ieee_delapp).
func ClearPriorities(r *netlink.Route, name string) error {
	have, err := ReadPriorities(r, name)
	if err == nil && len(have) > 0 {
		err = send(r, ieeeDel, name, have)
	}
	if err != nil {
		return fmt.Errorf("delete the DCB priorities of %s: %w", name, err)
	}
	return nil
}

// send adds entries to the tables, or deletes them.
func send(r *netlink.Route, command byte, name string, list []Priority) error {
	m := netlink.Append(request(command, name), attrIEEE, tablesOf(list))
	answers, err := r.Send(unix.RTM_SETDCB, 0, unix.RTM_SETDCB, m)
	if err != nil || len(answers) == 0 {
		return err
	}
	answer, err := netlink.Behind(answers[0], dcbHead, "DCB")
	if err != nil {
		return err
	}
	// What came of it is the low byte of the kernel's error (dcbnl.c:dcbnl_ieee_set, dcbnl_ieee_del).
	if v := answer.Value(attrIEEE); len(v) == 1 && v[0] != 0 {
		return syscall.Errno(-int8(v[0]))
	}
	return nil
}

// tablesOf returns the tables with some entries.
func tablesOf(list []Priority) (tables []byte) {
	for _, kind := range []uint16{attrApp, attrRewrite} {
		var entries []byte
		for _, m := range list {
			if nativeDCB.Uint16(m[2:]) == kind {
				entries = append(entries, m[unix.SizeofRtAttr:]...)
			}
		}
		if entries != nil {
			tables = netlink.Append(tables, kind, entries)
		}
	}
	return tables
}
