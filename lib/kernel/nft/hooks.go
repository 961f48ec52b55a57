package nft

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Of linux/netfilter/nf_tables.h, which x/sys/unix lacks in part.
const (
	genHead = 4 // sizeof(struct nfgenmsg)

	hookDevices    = 4 // NFTA_HOOK_DEVS
	flowtableTable = 1 // NFTA_FLOWTABLE_TABLE
	flowtableName  = 2 // NFTA_FLOWTABLE_NAME
	flowtableHook  = 3 // NFTA_FLOWTABLE_HOOK
	flowtableDevs  = 3 // NFTA_FLOWTABLE_HOOK_DEVS
	deviceName     = 1 // NFTA_DEVICE_NAME
)

// Hooked is a chain or a flowtable of nftables that names interfaces.
type Hooked struct {
	What, Table, Name string
	Devices           []string
}

// Hooks asks for what names interfaces in the network namespace that the calling thread is in when it
// first asks. The zero Hooks has not asked yet.
type Hooks struct{ socket *netlink.Socket }

// Close closes the connection.
func (k *Hooks) Close() {
	if k.socket != nil {
		k.socket.Close()
	}
}

// Read reads all of the namespace.
func (k *Hooks) Read() (list []Hooked, err error) {
	if loaded, err := loaded(); err != nil || !loaded {
		return nil, err
	}
	if k.socket == nil {
		k.socket, err = netlink.Open(unix.NETLINK_NETFILTER)
		if errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("open nfnetlink: %w", err)
		}
	}
	for _, of := range []struct {
		get, kind int
		read      func(netlink.Attributes) (Hooked, error)
	}{
		{unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, readChain},
		{unix.NFT_MSG_GETFLOWTABLE, unix.NFT_MSG_NEWFLOWTABLE, readFlowtable},
	} {
		const subsystem = unix.NFNL_SUBSYS_NFTABLES << 8
		begun := len(list)
		again := func() { list = list[:begun] }
		request := make([]byte, genHead) // AF_UNSPEC, all families
		err := k.socket.Each(subsystem|of.get, unix.NLM_F_DUMP, uint16(subsystem|of.kind), request, again, func(m []byte) error {
			whole, err := netlink.Behind(m, genHead, "nftables")
			if err != nil {
				return err
			}
			h, err := of.read(whole)
			if len(h.Devices) > 0 {
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

func readChain(list netlink.Attributes) (Hooked, error) {
	devices, err := devicesOf(list, unix.NFTA_CHAIN_HOOK, hookDevices)
	return Hooked{"chain", list.Text(unix.NFTA_CHAIN_TABLE), list.Text(unix.NFTA_CHAIN_NAME), devices}, err
}

func readFlowtable(list netlink.Attributes) (Hooked, error) {
	devices, err := devicesOf(list, flowtableHook, flowtableDevs)
	return Hooked{"flowtable", list.Text(flowtableTable), list.Text(flowtableName), devices}, err
}

// devicesOf returns the interfaces that a hook names.
func devicesOf(list netlink.Attributes, hook, devices uint16) (names []string, err error) {
	inner, err := list.Nested(hook)
	if err == nil {
		inner, err = inner.Nested(devices)
	}
	if err != nil {
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

// loaded tells whether the kernel has nftables already: to ask it for chains would load
// its modules (nfnetlink.c:nfnetlink_rcv_msg). Where that is not known, it is asked.
func loaded() (bool, error) {
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
