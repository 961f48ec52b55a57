// Package sysfs reads what only /sys tells of an RDMA device: where its
// hardware sits, which character device is which, and its ports' GIDs.
// It is handed /sys as a file system, so that a test can lay one out.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// BusAddress says where a device's hardware is.
type BusAddress struct {
	PCI string // address of the nearest PCI function, with its domain; empty if there is none
	Aux string // the device below that function, where several share it (a subfunction)
}

// isPCI tells the address of a PCI function from the name of another device:
// 0000:3b:00.1, with a domain of up to eight digits.
func isPCI(name string) bool {
	domain, rest, _ := strings.Cut(name, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	slot, function, _ := strings.Cut(rest, ".")
	return len(domain) >= 4 && len(domain) <= 8 && len(bus) == 2 && len(slot) == 2 && len(function) == 1 &&
		isHex(domain+bus+slot) && strings.Contains("01234567", function)
}

func isHex(digits string) bool {
	return !strings.ContainsFunc(digits, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
}

// Char resolves a character device's number to its kernel name (uverbs3) and
// its place. The class of uverbs devices is the same in every network
// namespace, so this finds a device that is away in a job, too.
func Char(sys fs.FS, major, minor uint32) (name string, address BusAddress, err error) {
	target, err := fs.ReadLink(sys, fmt.Sprintf("dev/char/%d:%d", major, minor))
	if err != nil {
		return "", BusAddress{}, fmt.Errorf("find character device %d:%d: %w", major, minor, err)
	}
	// ../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband_verbs/uverbs0
	return path.Base(target), addressOf(path.Dir(path.Dir(target))), nil
}

// Parent returns the place of an RDMA device that is in the namespace whose /sys this is.
func Parent(sys fs.FS, rdma string) (BusAddress, error) {
	target, err := fs.ReadLink(sys, path.Join("class/infiniband", rdma))
	if err != nil {
		return BusAddress{}, fmt.Errorf("find RDMA device %s: %w", rdma, err)
	}
	return addressOf(path.Dir(path.Dir(target))), nil
}

// Owner is what a character device of an HCA belongs to, as the device's class has it,
// which is the same in every network namespace.
type Owner struct {
	Device  string // name of the RDMA device; since kernel 7.3 one of another namespace may have it, too
	Address BusAddress
}

// CharClass returns the kernel's class of an HCA's character device, empty for the name of
// what is none.
func CharClass(name string) string {
	switch strings.TrimRight(name, "0123456789") {
	case "uverbs":
		return "infiniband_verbs"
	case "umad", "issm":
		return "infiniband_mad"
	case "hfi1_":
		return hfiClass
	}
	return ""
}

// hfiClass has the character devices by which programs open Omni-Path HCAs (PSM2, OPX), beside uverbs. They
// have the names of their RDMA devices, no parent device, and nodes in /dev itself
// (drivers/infiniband/hw/hfi1/device.c).
const hfiClass = "hfi1_user"

// IsHFI tells such a device by its name.
func IsHFI(name string) bool { return CharClass(name) == hfiClass }

// HFIs returns the names of the node's.
func HFIs(sys fs.FS) []string { return entries(sys, "class/"+hfiClass) }

// HFI returns the number of an HCA's, or fs.ErrNotExist.
func HFI(sys fs.FS, rdma string) (major, minor uint32, err error) { return Dev(sys, hfiClass, rdma) }

// RenamedHFIs returns the uverbs devices of hfi1's HCAs that have other names than all of its character devices:
// nothing tells which HCA has which of these.
func RenamedHFIs(sys fs.FS) (list []string, err error) {
	names, err := verbs(sys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		driver, err := fs.ReadLink(sys, path.Join(verbsClass, name, "device/driver"))
		if err != nil || path.Base(driver) != "hfi1" {
			continue // it has none, or is gone
		}
		owner, err := OwnerOf(sys, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil && !slices.Contains(HFIs(sys), owner.Device) {
			list = append(list, name)
		}
	}
	return list, nil
}

// OwnerOf returns the owner of a character device. One that goes meanwhile is fs.ErrNotExist.
func OwnerOf(sys fs.FS, name string) (Owner, error) {
	dir := path.Join("class", CharClass(name), name)
	target, err := fs.ReadLink(sys, dir)
	if err != nil {
		return Owner{}, fmt.Errorf("find %s: %w", name, err)
	}
	if IsHFI(name) {
		address, err := Parent(sys, name)
		return Owner{name, address}, err
	}
	device, err := read(sys, path.Join(dir, "ibdev"))
	if err != nil {
		return Owner{}, fmt.Errorf("read the RDMA device of %s: %w", name, gone(err))
	}
	return Owner{device, addressOf(path.Dir(path.Dir(target)))}, nil
}

// DeviceOf returns the name of the device, a PCI function for one, that a character device is of. It is
// fs.ErrNotExist for one of a virtual HCA.
func DeviceOf(sys fs.FS, name string) (string, error) {
	target, err := fs.ReadLink(sys, path.Join("class", CharClass(name), name, "device"))
	if err != nil {
		return "", fmt.Errorf("find the device of %s: %w", name, gone(err))
	}
	return path.Base(target), nil
}

// NodeGUID returns the node GUID of an RDMA device that is in the namespace whose /sys this is.
func NodeGUID(sys fs.FS, rdma string) (string, error) {
	guid, err := read(sys, path.Join("class/infiniband", rdma, "node_guid"))
	return guid, gone(err)
}

// gone says of a file of a device that went while it was read that it is not there any
// more (kernfs/file.c:kernfs_get_active, uverbs_main.c:ibdev_show).
func gone(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

const verbsClass = "class/infiniband_verbs"

// verbs returns the names of the node's uverbs devices. A kernel without ib_uverbs has no such class:
// fs.ErrNotExist.
func verbs(sys fs.FS) (names []string, err error) {
	entries, err := fs.ReadDir(sys, verbsClass)
	for _, e := range entries {
		if CharClass(e.Name()) != "" { // else abi_version, which is a file
			names = append(names, e.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list uverbs devices: %w", err)
	}
	return names, nil
}

// CountVerbs counts the node's uverbs devices, wherever their RDMA devices are.
func CountVerbs(sys fs.FS) (count int, err error) {
	names, err := verbs(sys)
	return len(names), err
}

// CountNames counts, by name, the RDMA devices of the node's uverbs devices, wherever they are. One that goes
// meanwhile is not counted.
func CountNames(sys fs.FS) (count map[string]int, err error) {
	names, err := verbs(sys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	count = map[string]int{}
	for _, verbs := range names {
		name, err := read(sys, path.Join(verbsClass, verbs, "ibdev"))
		if err = gone(err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the RDMA device of %s: %w", verbs, err)
		}
		if err == nil {
			count[name]++
		}
	}
	return count, nil
}

// AllVerbs lists the owners of the node's uverbs devices, wherever their RDMA devices are.
// A kernel without ib_uverbs has no such class: fs.ErrNotExist.
func AllVerbs(sys fs.FS) ([]Owner, error) {
	names, err := verbs(sys)
	if err != nil {
		return nil, err
	}
	var list []Owner
	for _, name := range names {
		owner, err := OwnerOf(sys, name)
		if err != nil {
			return nil, err
		}
		list = append(list, owner)
	}
	return list, nil
}

// HasDriver tells whether a device, as bus/name, is there and has a driver.
func HasDriver(sys fs.FS, device string) (bool, error) {
	bus, name, named := strings.Cut(device, "/")
	if !named {
		return false, nil
	}
	_, err := fs.Stat(sys, path.Join("bus", bus, "devices", name, "driver"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func addressOf(dir string) BusAddress {
	parts := strings.Split(dir, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if isPCI(parts[i]) {
			return BusAddress{PCI: parts[i], Aux: strings.Join(parts[i+1:], "/")}
		}
	}
	return BusAddress{}
}

// Dev returns the number of a class's device, such as rdma_cm of misc.
func Dev(sys fs.FS, class, name string) (major, minor uint32, err error) {
	file := path.Join("class", class, name, "dev")
	text, err := read(sys, file)
	if err != nil {
		return 0, 0, err
	}
	left, right, ok := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(left, 10, 32)
	b, errB := strconv.ParseUint(right, 10, 32)
	if !ok || errA != nil || errB != nil {
		return 0, 0, fmt.Errorf("read %s: %q is no device number", file, text)
	}
	return uint32(a), uint32(b), nil
}

// Targets returns the hosts of the node's iSCSI sessions.
func Targets(sys fs.FS) (list []netip.Addr, err error) {
	const class = "class/iscsi_connection"
	entries, err := fs.ReadDir(sys, class)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list iSCSI sessions: %w", err)
	}
	for _, e := range entries {
		text, err := read(sys, path.Join(class, e.Name(), "address"))
		if err != nil {
			continue // it ended meanwhile
		}
		if addr, err := netip.ParseAddr(text); err == nil {
			list = append(list, addr)
		}
	}
	return list, nil
}

// NVMeTargets returns the hosts of the node's NVMe disks over TCP. Those over RDMA use HCAs, which the kernel
// says.
func NVMeTargets(sys fs.FS) (list []netip.Addr) {
	const class = "class/nvme"
	for _, name := range entries(sys, class) {
		transport, _ := read(sys, path.Join(class, name, "transport")) // or the disk is gone meanwhile
		address, _ := read(sys, path.Join(class, name, "address"))
		if transport != "tcp" {
			continue
		}
		for _, option := range strings.Split(address, ",") {
			value, is := strings.CutPrefix(option, "traddr=")
			if addr, err := netip.ParseAddr(value); is && err == nil {
				list = append(list, addr)
			}
		}
	}
	return list
}

// LinkLayer returns a port's link layer, InfiniBand or Ethernet.
func LinkLayer(sys fs.FS, rdma string, port uint32) (string, error) {
	return read(sys, path.Join(portDir(rdma, port), "link_layer"))
}

// Rate returns a port's rate as the kernel prints it: "100 Gb/sec (4X EDR)".
func Rate(sys fs.FS, rdma string, port uint32) (string, error) {
	return read(sys, path.Join(portDir(rdma, port), "rate"))
}

func portDir(rdma string, port uint32) string {
	return path.Join("class/infiniband", rdma, "ports", strconv.FormatUint(uint64(port), 10))
}

func read(sys fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(sys, name)
	return strings.TrimSpace(string(b)), err
}
