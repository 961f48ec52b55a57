package sysfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/node"
)

// GPU is a GPU of the node.
type GPU struct {
	node.Location
	Files []string // its device nodes, and those of its parts: /dev/nvidia0, /dev/dri/renderD128, /dev/nvidia-caps/nvidia-cap21
	Minor int      // its number among those of its driver; -1: it has none
	Parts int      // into how many it is divided (MIG, CPX); 0: it is whole
}

// GPUs returns the node's GPUs in the order of their PCI addresses. proc is a /proc.
func GPUs(sys, proc fs.FS) (gpus []GPU, err error) {
	for _, list := range []func(sys, proc fs.FS) ([]GPU, error){nvidia, amd, displays, accelerators} {
		if gpus, err = list(sys, proc); len(gpus) > 0 || err != nil {
			break
		}
	}
	for i, g := range gpus {
		if err == nil {
			gpus[i].Location, err = Locate(sys, g.PCI)
		}
		if group := iommuGroup(sys, g.PCI); group != "" {
			gpus[i].Files = append(gpus[i].Files, "/dev/vfio/"+group) // its device node while VFIO has it
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the GPUs: %w", err)
	}
	sortGPUs(gpus)
	return gpus, nil
}

// iommuGroup returns the number of a PCI function's group, empty if it has none.
func iommuGroup(sys fs.FS, pci string) string {
	dir, err := pciDir(sys, pci)
	if err != nil {
		return ""
	}
	target, err := fs.ReadLink(sys, path.Join(dir, "iommu_group"))
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// sortGPUs has GPUs in the order of their PCI addresses. One begins with its domain, which may have more than four digits.
func sortGPUs(gpus []GPU) {
	slices.SortFunc(gpus, func(a, b GPU) int { return cmp.Or(len(a.PCI)-len(b.PCI), strings.Compare(a.PCI, b.PCI)) })
}

// nvidia asks NVIDIA's driver, which keeps its devices out of /sys/class. It leaves out GPUs that the
// site excludes (NVreg_ExcludedGpus), as NVIDIA's library does.
func nvidia(sys, proc fs.FS) (gpus []GPU, err error) {
	const dir = "driver/nvidia/gpus"
	for _, entry := range entries(proc, dir) {
		file := path.Join(dir, entry, "information")
		text, err := read(proc, file)
		if err != nil {
			return nil, err
		}
		if word, _ := information(text, "GPU Excluded:"); word == "Yes" {
			continue
		}
		word, found := information(text, "Device Minor:")
		minor, err := strconv.Atoi(word)
		if !found || err != nil {
			return nil, fmt.Errorf("read %s: it has no device minor", file)
		}
		mig := fmt.Sprintf("driver/nvidia/capabilities/gpu%d/mig/gi*", minor)
		parts, err := fs.Glob(proc, mig+"/ci*")
		if err != nil {
			return nil, err
		}
		caps, err := capabilities(proc, mig)
		if err != nil {
			return nil, err
		}
		gpus = append(gpus, GPU{
			Location: node.Location{PCI: strings.ToLower(entry)},
			Files:    append([]string{fmt.Sprintf("/dev/nvidia%d", minor)}, caps...), Minor: minor, Parts: len(parts),
		})
	}
	return addDRM(sys, gpus)
}

// capabilities returns the device nodes of a GPU's parts, which a site may name in gres.conf in place of the
// GPU's own.
func capabilities(proc fs.FS, mig string) (files []string, err error) {
	for _, pattern := range []string{mig + "/access", mig + "/ci*/access"} {
		names, err := fs.Glob(proc, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := read(proc, name)
			if err != nil {
				return nil, err
			}
			if minor, found := information(text, "DeviceFileMinor:"); found {
				files = append(files, "/dev/nvidia-caps/nvidia-cap"+minor)
			}
		}
	}
	return files, nil
}

// information returns what a line of NVIDIA's driver has after a word.
func information(text, word string) (value string, found bool) {
	_, after, found := strings.Cut(text, word)
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line), found
}

func amd(sys, _ fs.FS) (gpus []GPU, err error) {
	const vendor = "0x1002"
	for _, entry := range entries(sys, "class/drm") {
		minor, is := renderNode(entry)
		if !is {
			continue
		}
		pci, err := functionOf(sys, entry)
		if err != nil {
			return nil, err
		}
		if pci != "" && attribute(sys, pci, "vendor") == vendor {
			gpus = append(gpus, GPU{Location: node.Location{PCI: pci}, Minor: minor})
		}
	}
	return addDRM(sys, gpus)
}

// displays returns the functions of PCI's class for displays (include/linux/
// pci_ids.h): 3D controllers, or display adapters that are no service processor's.
func displays(sys, _ fs.FS) ([]GPU, error) {
	var accelerators, adapters []GPU
	for _, pci := range entries(sys, "bus/pci/devices") {
		g := GPU{Location: node.Location{PCI: pci}, Minor: -1}
		class := attribute(sys, pci, "class")
		switch {
		case strings.HasPrefix(class, "0x0302"), strings.HasPrefix(class, "0x0380"):
			accelerators = append(accelerators, g)
		case strings.HasPrefix(class, "0x0300") && !slices.Contains(serviceProcessors, attribute(sys, pci, "vendor")):
			adapters = append(adapters, g)
		}
	}
	if len(accelerators) > 0 {
		return addDRM(sys, accelerators)
	}
	return addDRM(sys, adapters)
}

// serviceProcessors are the vendors of display adapters that nobody computes with: ASPEED, Matrox, Huawei, XGI
// and Silicon Motion; and those of virtual machines: QEMU's, Red Hat's, Amazon's, Microsoft's, VMware's and Cirrus's.
var serviceProcessors = []string{
	"0x1a03", "0x102b", "0x19e5", "0x18ca", "0x126f",
	"0x1234", "0x1b36", "0x1af4", "0x1d0f", "0x1414", "0x15ad", "0x1013",
}

// accelerators returns the devices of the kernel's accel subsystem (drivers/accel), such as Intel's Gaudi.
func accelerators(sys, _ fs.FS) (gpus []GPU, err error) {
	const class = "class/accel"
	for _, entry := range entries(sys, class) {
		text, _ := strings.CutPrefix(entry, "accel")
		minor, err := strconv.Atoi(text)
		if err != nil {
			continue // accel_controlD0
		}
		target, err := fs.ReadLink(sys, path.Join(class, entry))
		if err != nil {
			return nil, err
		}
		if pci := addressOf(target).PCI; pci != "" {
			gpus = append(gpus, GPU{Location: node.Location{PCI: pci}, Files: []string{"/dev/accel/" + entry}, Minor: minor})
		}
	}
	return gpus, nil
}

// addDRM adds the device nodes of the kernel's graphics devices. A partition of an AMD GPU is a device
// of its own (drivers/gpu/drm/amd/amdxcp), and only the KFD tells which GPU it is of.
func addDRM(sys fs.FS, gpus []GPU) ([]GPU, error) {
	if len(gpus) == 0 {
		return nil, nil
	}
	partitions := map[int]string{}
	for _, entry := range entries(sys, "class/drm") {
		minor, render := renderNode(entry)
		card, isCard := strings.CutPrefix(entry, "card")
		if !render && (!isCard || strings.Trim(card, "0123456789") != "") {
			continue // a connector
		}
		pci, err := functionOf(sys, entry)
		if err != nil {
			return nil, err
		}
		partition := pci == "" && render
		if partition {
			if len(partitions) == 0 {
				partitions = kfdNodes(sys)
			}
			pci = partitions[minor]
		}
		i := slices.IndexFunc(gpus, func(g GPU) bool { return g.PCI == pci })
		if i < 0 {
			continue
		}
		gpus[i].Files = append(gpus[i].Files, "/dev/dri/"+entry)
		if render && gpus[i].Minor < 0 {
			gpus[i].Minor = minor
		}
		if partition {
			gpus[i].Parts = max(gpus[i].Parts, 1) + 1
		}
	}
	return gpus, nil
}

// renderNode returns the number of a render node.
func renderNode(entry string) (minor int, is bool) {
	text, is := strings.CutPrefix(entry, "renderD")
	minor, err := strconv.Atoi(text)
	return minor, is && err == nil
}

// functionOf returns the PCI function that a graphics device is of, empty if none.
func functionOf(sys fs.FS, entry string) (pci string, err error) {
	target, err := fs.ReadLink(sys, path.Join("class/drm", entry))
	if err != nil {
		return "", err
	}
	return addressOf(target).PCI, nil
}

// kfdNodes returns the PCI functions of AMD's GPUs and their partitions by the numbers of their render
// nodes. The function's number is the partition's there, so it is left out
// (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
func kfdNodes(sys fs.FS) map[int]string {
	const dir = "class/kfd/kfd/topology/nodes"
	nodes := map[int]string{}
	for _, entry := range entries(sys, dir) {
		text, err := read(sys, path.Join(dir, entry, "properties"))
		if err != nil {
			continue // a node that a container may not see
		}
		has := map[string]int{}
		for line := range strings.Lines(text) {
			if words := strings.Fields(line); len(words) == 2 {
				has[words[0]], _ = strconv.Atoi(words[1])
			}
		}
		if minor := has["drm_render_minor"]; minor > 0 {
			at := has["location_id"]
			nodes[minor] = fmt.Sprintf("%04x:%02x:%02x.0", has["domain"], at>>8&0xff, at>>3&0x1f)
		}
	}
	return nodes
}
