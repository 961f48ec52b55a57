// Package machines has the layouts of real machines, one file each: where GPUs and HCAs sit, and which
// HCAs jobs get.
//
// A file has a line for each fact, and comments that begin with #:
//
//	# source: where the layout is from
//	numa N D D …              distances from NUMA node N to nodes 0, 1, …
//	gpuMINOR NUMA PATH        a GPU, by its device's minor number; PATH has the PCI addresses from the root down
//	hca:NAME[:FLAG] NUMA PATH an HCA; with a flag (mgmt, nvsw, down) no job gets it; stor: it is storage's, and
//	                          sits where no GPU is
//	job GPUS HCA …            the HCAs of a job that has these GPUs, by Slurm's numbers, and asks for no HCA
package machines

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing/fstest"

	"gresnet/lib/words/indices"
	"gresnet/lib/words/node"
)

//go:embed layouts
var layouts embed.FS

// Machine is a node's layout.
type Machine struct {
	Name      string
	Sys, Proc fs.FS      // its /sys, and its /proc with NVIDIA's driver
	HCAs      []node.HCA // those that jobs can get
	Others    []node.HCA // those that no job gets
	Jobs      []Job
}

// Job is what a job's GPUs are, and the names of the HCAs that it gets.
type Job struct {
	GPUs []int
	HCAs []string
}

// All returns all machines, by their names.
func All() (map[string]Machine, error) {
	files, err := layouts.ReadDir("layouts")
	if err != nil {
		return nil, err
	}
	all := map[string]Machine{}
	for _, f := range files {
		text, err := layouts.ReadFile(path.Join("layouts", f.Name()))
		if err == nil {
			all[f.Name()], err = Parse(f.Name(), string(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Parse reads a layout.
func Parse(name, text string) (Machine, error) {
	sys, proc := fstest.MapFS{}, fstest.MapFS{}
	m := Machine{Name: name, Sys: sys, Proc: proc}
	vendor, number := "nvidia", 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		fault := func(what string) error { return fmt.Errorf("%s:%d: %s: %q", name, number, what, line) }
		kind, rest, _ := strings.Cut(words[0], ":")
		minor, isGPU := strings.CutPrefix(words[0], "gpu")
		switch {
		case words[0] == "#":
			if len(words) == 3 && words[1] == "vendor:" {
				vendor = words[2]
			}
		case words[0] == "numa" && len(words) > 2:
			sys["devices/system/node/online"] = &fstest.MapFile{Data: fmt.Appendf(nil, "0-%d\n", len(words)-3)}
			sys["devices/system/node/node"+words[1]+"/distance"] = &fstest.MapFile{Data: []byte(strings.Join(words[2:], " ") + "\n")}
		case words[0] == "job" && len(words) > 1:
			gpus, err := indices.Parse(words[1])
			if err != nil {
				return Machine{}, fault(err.Error())
			}
			m.Jobs = append(m.Jobs, Job{gpus, words[2:]})
		case len(words) != 3:
			return Machine{}, fault("no line of a layout")
		case isGPU:
			if _, err := strconv.Atoi(minor); err != nil {
				return Machine{}, fault("no minor number")
			}
			pci := function(sys, words[1], words[2])
			if vendor == "amd" {
				n, _ := strconv.Atoi(minor)
				sys[fmt.Sprintf("class/drm/renderD%d", 128+n)] = &fstest.MapFile{Data: []byte("../../devices/" + words[2] + "/drm/x"), Mode: fs.ModeSymlink}
				sys["devices/"+words[2]+"/vendor"] = &fstest.MapFile{Data: []byte("0x1002\n")}
				continue
			}
			proc["driver/nvidia/gpus/"+pci+"/information"] = &fstest.MapFile{Data: []byte("Device Minor: \t " + minor + "\n")}
		case kind == "hca":
			pci := function(sys, words[1], words[2])
			hca, flag, _ := strings.Cut(rest, ":")
			list := &m.HCAs
			if flag != "" && flag != "stor" {
				list = &m.Others
			}
			*list = append(*list, node.HCA{ID: node.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", number), PCI: pci}, Name: hca})
		default:
			return Machine{}, fault("no line of a layout")
		}
	}
	return m, nil
}

// function makes a PCI function at the end of a path, and returns its address.
func function(sys fstest.MapFS, numa, dir string) string {
	pci := path.Base(dir)
	sys["devices/"+dir+"/numa_node"] = &fstest.MapFile{Data: []byte(numa + "\n")}
	sys["bus/pci/devices/"+pci] = &fstest.MapFile{Data: []byte("../../../devices/" + dir), Mode: fs.ModeSymlink}
	return pci
}
