package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/node"
)

// Locate is where a PCI function sits. It stays there wherever the devices that
// it has are: PCI knows no network namespaces.
func Locate(sys fs.FS, pci string) (node.Location, error) {
	dir, err := pciDir(sys, pci)
	if err != nil {
		return node.Location{}, err
	}
	text, err := read(sys, path.Join(dir, "numa_node"))
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

// pciDir is a function's folder: devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0.
func pciDir(sys fs.FS, pci string) (string, error) {
	target, err := fs.ReadLink(sys, path.Join("bus/pci/devices", pci))
	if err != nil {
		return "", fmt.Errorf("find PCI function %s: %w", pci, err)
	}
	return path.Join("bus/pci/devices", target), nil
}

// GPUs are the node's GPUs in the order in which Slurm numbers them: by the
// minor number of /dev/nvidia0, by that of /dev/dri/renderD128 for AMD's, and
// else by their PCI address. proc is a /proc.
func GPUs(sys, proc fs.FS) ([]node.Location, error) {
	for _, list := range []func(sys, proc fs.FS) ([]string, error){nvidia, amd, displays} {
		addresses, err := list(sys, proc)
		if err != nil {
			return nil, fmt.Errorf("list the GPUs: %w", err)
		}
		if len(addresses) > 0 {
			return locateAll(sys, addresses)
		}
	}
	return nil, nil
}

// AreDivided tells whether NVIDIA's driver has GPUs cut into instances (MIG), which
// Slurm numbers in their place. proc is a /proc.
func AreDivided(proc fs.FS) bool {
	instances, err := fs.Glob(proc, "driver/nvidia/capabilities/gpu*/mig/gi*")
	return err == nil && len(instances) > 0
}

// locateAll returns where PCI functions are.
func locateAll(sys fs.FS, addresses []string) ([]node.Location, error) {
	out := make([]node.Location, len(addresses))
	for i, pci := range addresses {
		var err error
		if out[i], err = Locate(sys, pci); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// numbered is a PCI function with the number that it is sorted by.
type numbered struct {
	number int
	pci    string
}

func inOrder(list []numbered) []string {
	slices.SortFunc(list, func(a, b numbered) int { return a.number - b.number })
	addresses := make([]string, len(list))
	for i, n := range list {
		addresses[i] = n.pci
	}
	return addresses
}

// nvidia asks NVIDIA's driver, which keeps its devices out of /sys/class.
func nvidia(_, proc fs.FS) ([]string, error) {
	const dir = "driver/nvidia/gpus"
	var list []numbered
	for _, entry := range entries(proc, dir) {
		file := path.Join(dir, entry, "information")
		text, err := read(proc, file)
		if err != nil {
			return nil, err
		}
		_, after, found := strings.Cut(text, "Device Minor:")
		line, _, _ := strings.Cut(after, "\n")
		minor, err := strconv.Atoi(strings.TrimSpace(line))
		if !found || err != nil {
			return nil, fmt.Errorf("read %s: it has no device minor", file)
		}
		list = append(list, numbered{minor, strings.ToLower(entry)})
	}
	return inOrder(list), nil
}

func amd(sys, _ fs.FS) ([]string, error) {
	const vendor = "0x1002"
	var list []numbered
	for _, entry := range entries(sys, "class/drm") {
		text, is := strings.CutPrefix(entry, "renderD")
		minor, err := strconv.Atoi(text)
		if !is || err != nil {
			continue
		}
		target, err := fs.ReadLink(sys, path.Join("class/drm", entry))
		if err != nil {
			return nil, err
		}
		pci := addressOf(target).PCI
		if pci != "" && attribute(sys, pci, "vendor") == vendor {
			list = append(list, numbered{minor, pci})
		}
	}
	return inOrder(list), nil
}

// displays are the functions of PCI's class for displays (include/linux/
// pci_ids.h): 3D controllers, or display adapters that are no service processor's.
func displays(sys, _ fs.FS) ([]string, error) {
	var accelerators, adapters []string
	for _, pci := range entries(sys, "bus/pci/devices") {
		class := attribute(sys, pci, "class")
		switch {
		case strings.HasPrefix(class, "0x0302"), strings.HasPrefix(class, "0x0380"):
			accelerators = append(accelerators, pci)
		case strings.HasPrefix(class, "0x0300") && !slices.Contains(serviceProcessors, attribute(sys, pci, "vendor")):
			adapters = append(adapters, pci)
		}
	}
	if len(accelerators) > 0 {
		return accelerators, nil
	}
	return adapters, nil
}

// serviceProcessors are the vendors of display adapters that nobody computes
// with: ASPEED, Matrox, and QEMU's own.
var serviceProcessors = []string{"0x1a03", "0x102b", "0x1234"}

// attribute is a function's attribute, empty if it has none.
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

// entries are the names in a folder in order, none if it is not there.
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
