package link

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// Of linux/netfilter/nf_tables.h, which x/sys/unix lacks in part.
const (
	nftHead = 4 // sizeof(struct nfgenmsg)

	hookDevice     = 3 // NFTA_HOOK_DEV
	hookDevices    = 4 // NFTA_HOOK_DEVS
	flowtableTable = 1 // NFTA_FLOWTABLE_TABLE
	flowtableName  = 2 // NFTA_FLOWTABLE_NAME
	flowtableHook  = 3 // NFTA_FLOWTABLE_HOOK
	flowtableDevs  = 3 // NFTA_FLOWTABLE_HOOK_DEVS
	deviceName     = 1 // NFTA_DEVICE_NAME
)

// hooked is a chain or a flowtable of nftables that names interfaces.
type hooked struct {
	what, table, name string
	devices           []string
}

// refuseHooked refuses what a chain of nftables sees at the interface's own ends, or a flowtable
// takes packets from: the kernel removes the interface from it, and the last one with the
// chain (nf_tables_api.c, nft_chain_filter.c).
func (c *Conn) refuseHooked(s Settings) error {
	all, err := c.hooked()
	if err != nil {
		return fmt.Errorf("read the chains of nftables that name %s: %w", s.Name, err)
	}
	for _, h := range all {
		if slices.Contains(h.devices, s.Name) {
			return fmt.Errorf("%s is in %s %s of the nftables table %s, to which gresnet cannot give it back", s.Name, h.what, h.name, h.table)
		}
	}
	return nil
}

// hooked are all of the namespace.
func (c *Conn) hooked() (list []hooked, err error) {
	if c.known != nil && c.known.hooked != nil {
		return c.known.hooked, nil
	}
	if list, err = c.readHooked(); err == nil && c.known != nil {
		c.known.hooked = append([]hooked{}, list...)
	}
	return list, err
}

func (c *Conn) readHooked() (list []hooked, err error) {
	if loaded, err := nftablesLoaded(); err != nil || !loaded {
		return nil, err
	}
	if c.netfilter == nil {
		c.netfilter, err = netlink.Open(unix.NETLINK_NETFILTER)
		if errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("open nfnetlink: %w", err)
		}
	}
	for _, of := range []struct {
		get, kind int
		read      func(netlink.Attributes) (hooked, error)
	}{
		{unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, readChain},
		{unix.NFT_MSG_GETFLOWTABLE, unix.NFT_MSG_NEWFLOWTABLE, readFlowtable},
	} {
		const subsystem = unix.NFNL_SUBSYS_NFTABLES << 8
		begun := len(list)
		again := func() { list = list[:begun] }
		request := make([]byte, nftHead) // AF_UNSPEC, all families
		err := c.netfilter.Each(subsystem|of.get, unix.NLM_F_DUMP, uint16(subsystem|of.kind), request, again, func(m []byte) error {
			whole, err := netlink.Parse(m[min(nftHead, len(m)):])
			if err != nil {
				return err
			}
			h, err := of.read(whole)
			if len(h.devices) > 0 {
				list = append(list, h)
			}
			return err
		})
		// A kernel without nftables, or an old one without flowtables.
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EPROTONOSUPPORT) && !errors.Is(err, unix.EINVAL) {
			return nil, err
		}
	}
	return list, nil
}

func readChain(list netlink.Attributes) (hooked, error) {
	devices, err := devicesOf(list, unix.NFTA_CHAIN_HOOK, hookDevices)
	return hooked{"chain", list.Text(unix.NFTA_CHAIN_TABLE), list.Text(unix.NFTA_CHAIN_NAME), devices}, err
}

func readFlowtable(list netlink.Attributes) (hooked, error) {
	devices, err := devicesOf(list, flowtableHook, flowtableDevs)
	return hooked{"flowtable", list.Text(flowtableTable), list.Text(flowtableName), devices}, err
}

// devicesOf are the interfaces that a hook names.
func devicesOf(list netlink.Attributes, hook, devices uint16) (names []string, err error) {
	nested, there := list.Find(hook)
	if !there {
		return nil, nil
	}
	inner, err := netlink.Parse(nested)
	if err != nil {
		return nil, err
	}
	// Before kernel 5.5 a chain has one alone.
	if one := inner.Text(hookDevice); one != "" && devices == hookDevices {
		names = append(names, one)
	}
	if inner, err = inner.Nested(devices); err != nil {
		return nil, err
	}
	for a := range inner.All() {
		// One that is given by how its name begins stays (nft_chain_filter.c:nft_netdev_event).
		if a.Type() == deviceName {
			names = append(names, unix.ByteSliceToString(a.Value))
		}
	}
	return names, nil
}

// nftablesLoaded tells whether the kernel has nftables already: to ask it for chains would load
// its modules (nfnetlink.c:nfnetlink_rcv_msg). Where nobody can tell, it is asked.
func nftablesLoaded() (bool, error) {
	if _, err := os.Stat("/sys/module/nf_tables"); err == nil {
		return true, nil
	}
	if _, err := os.Stat("/proc/modules"); errors.Is(err, fs.ErrNotExist) {
		return true, nil // a kernel that loads none
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false, err
	}
	built, err := os.ReadFile("/lib/modules/" + unix.ByteSliceToString(name.Release[:]) + "/modules.builtin")
	if err != nil {
		return true, nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(built)); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "/nf_tables.ko") {
			return true, nil
		}
	}
	return false, nil
}
