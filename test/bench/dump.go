package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
)

// dumpCommand writes what the floor is told of one HCA.
func dumpCommand(args []string) error {
	f := flag.NewFlagSet("dump", flag.ContinueOnError)
	c := testCase{HCAs: 1, Jobs: 1}
	f.StringVar(&c.Mode, "mode", "exclusive", "the node's RDMA netns mode")
	f.StringVar(&c.Kind, "kind", "roce", "of the HCA: roce or ib")
	if err := arguments(f, args, 4); err != nil {
		return err
	}
	return dump(c, []hca{{f.Arg(2), f.Arg(3)}}, f.Arg(0), f.Arg(1))
}

// dump writes what the floor is told (test/floor/input.go) of the HCAs of a job.
func dump(c testCase, list []hca, dir, file string) error {
	text := fmt.Sprintf("netns %s/netns\ndev %[1]s/dev\nowner %d %d\n", dir, uid, uid)
	if c.HCAs > 0 {
		devices, err := dumpDevices(c.Mode, list)
		if err != nil {
			return err
		}
		text += devices
	}
	for _, h := range list {
		link, err := dumpLink(h, c.Mode == "exclusive" && c.Kind == "ib")
		if err != nil {
			return err
		}
		text += link
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

func dumpDevices(mode string, list []hca) (string, error) {
	conn, err := rdma.Dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return "", err
	}
	var text string // without rdma_cm: these jobs have no node to themselves
	index := map[string]uint32{}
	for _, d := range devices {
		index[d.Name] = d.Index
	}
	for _, h := range list {
		d := index[h.rdma]
		verbs, err := conn.Uverbs(d)
		if err != nil {
			return "", err
		}
		name, _, err := sysfs.Char(sysfs.At("/sys"), verbs.Major, verbs.Minor)
		if err != nil {
			return "", err
		}
		if mode == "exclusive" {
			text += fmt.Sprintf("rdma %d\n", d)
		}
		text += fmt.Sprintf("node %s %s %d %d\n", filepath.Join("/dev/infiniband", name), name, verbs.Major, verbs.Minor)
	}
	return text, nil
}

// dumpLink returns an interface with those of its addresses and routes that the
// kernel does not make by itself.
func dumpLink(h hca, remade bool) (string, error) {
	i, err := net.InterfaceByName(h.link)
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", h.link, err)
	}
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: i.Index}}
	text := fmt.Sprintf("link %d %s\n", i.Index, h.link)
	if remade {
		device, err := filepath.EvalSymlinks("/sys/class/infiniband/" + h.rdma + "/device")
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", h.rdma, err)
		}
		text = fmt.Sprintf("remade %s/net %s\n", device, h.link)
	}
	addresses, err := netlink.AddrList(link, unix.AF_INET)
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		text += "address " + hex.EncodeToString(addressMessage(a)) + "\n"
	}
	routes, err := netlink.RouteListFiltered(unix.AF_INET, &netlink.Route{LinkIndex: i.Index, Protocol: unix.RTPROT_BOOT}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return "", err
	}
	for _, r := range routes {
		text += "route " + hex.EncodeToString(routeMessage(r)) + "\n"
	}
	return text, nil
}

func addressMessage(a netlink.Addr) []byte {
	ones, _ := a.Mask.Size()
	head := nl.NewIfAddrmsg(unix.AF_INET)
	head.Prefixlen, head.Scope = uint8(ones), uint8(a.Scope)
	m := head.Serialize()
	m = append(m, nl.NewRtAttr(unix.IFA_LOCAL, a.IP.To4()).Serialize()...)
	return append(m, nl.NewRtAttr(unix.IFA_ADDRESS, a.IP.To4()).Serialize()...)
}

// routeMessage ends in the interface's index, where the floor writes it.
func routeMessage(r netlink.Route) []byte {
	ones, _ := r.Dst.Mask.Size()
	head := nl.NewRtMsg()
	head.Family, head.Dst_len, head.Scope = unix.AF_INET, uint8(ones), uint8(r.Scope)
	head.Protocol, head.Type = unix.RTPROT_BOOT, unix.RTN_UNICAST
	m := head.Serialize()
	m = append(m, nl.NewRtAttr(unix.RTA_DST, r.Dst.IP.To4()).Serialize()...)
	m = append(m, nl.NewRtAttr(unix.RTA_GATEWAY, r.Gw.To4()).Serialize()...)
	return append(m, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(0)).Serialize()...)
}
