package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/node"
)

// Locate returns where a PCI function sits. It stays there wherever the devices that
// it has are: PCI knows no network namespaces.
func Locate(sys fs.FS, pci string) (node.Location, error) {
	dir, err := pciDir(sys, pci)
	if err != nil {
		return node.Location{}, err
	}
	text, err := read(sys, path.Join(dir, "numa_node"))
	if errors.Is(err, fs.ErrNotExist) { // a kernel without NUMA
		text, err = "-1", nil
	}
	if err != nil {
		return node.Location{}, fmt.Errorf("find the NUMA node of %s: %w", pci, err)
	}
	numa, err := strconv.Atoi(text)
	if err != nil {
		return node.Location{}, fmt.Errorf("find the NUMA node of %s: %q is no number", pci, text)
	}
	// What is above the root complex (a platform device, on Arm) all of them share.
	above := strings.Split(path.Dir(dir), "/")
	root := slices.IndexFunc(above, func(name string) bool { return strings.HasPrefix(name, "pci") })
	return node.Location{PCI: pci, Path: above[max(root, 0):], NUMA: numa, Far: distances(sys, numa)}, nil
}

// distances returns the distances from a NUMA node to each that is online
// (drivers/base/node.c:node_read_distance), nil if the kernel has none.
func distances(sys fs.FS, numa int) map[int]int {
	text, err := read(sys, fmt.Sprintf("devices/system/node/node%d/distance", numa))
	if err != nil {
		return nil
	}
	online, err := cpusIn(sys, "devices/system/node/online")
	if err != nil {
		return nil
	}
	words := strings.Fields(text)
	far := map[int]int{}
	for i, other := range online[:min(len(online), len(words))] {
		if far[other], err = strconv.Atoi(words[i]); err != nil {
			return nil
		}
	}
	return far
}

// pciDir returns a function's folder: devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0.
func pciDir(sys fs.FS, pci string) (string, error) {
	target, err := fs.ReadLink(sys, path.Join("bus/pci/devices", pci))
	if err != nil {
		return "", fmt.Errorf("find PCI function %s: %w", pci, err)
	}
	return path.Join("bus/pci/devices", target), nil
}

// ManagesSwitches tells whether a PCI function is one by which NVIDIA's Fabric Manager manages the node's
// NVSwitches (HGX B200 and later). It is a ConnectX-7 as others are, and only its vital product data tells.
// Reading that takes milliseconds.
func ManagesSwitches(sys fs.FS, pci string) bool {
	if attribute(sys, pci, "vendor") != "0x15b3" || attribute(sys, pci, "device") != "0x1021" {
		return false
	}
	dir, err := pciDir(sys, pci)
	if err != nil {
		return false
	}
	data, _ := fs.ReadFile(sys, path.Join(dir, "vpd")) // what can be read of it
	return bytes.Contains(data, []byte("SW_MNG"))
}

// attribute returns a function's attribute, empty if it has none.
func attribute(sys fs.FS, pci, name string) string {
	dir, err := pciDir(sys, pci)
	if err != nil {
		return ""
	}
	text, err := read(sys, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return text
}

// entries returns the names in a folder in order, none if it is not there.
func entries(root fs.FS, dir string) []string {
	list, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}
