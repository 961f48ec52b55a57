// Package machines has the layouts of real machines, one file each; see Layout.
package machines

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing/fstest"

	"gresnet/lib/base/node"
)

//go:embed layouts
var layouts embed.FS

// Machine is a node's layout, and the files by which the kernel tells it.
type Machine struct {
	Layout
	Name      string
	Sys, Proc fs.FS      // its /sys, and its /proc with NVIDIA's driver
	HCAs      []node.HCA // those that jobs can get
	Others    []node.HCA // those that no job gets
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

// Parse reads a layout, and makes the files.
func Parse(name, text string) (Machine, error) {
	layout, err := parse(name, text)
	if err != nil {
		return Machine{}, err
	}
	sys, proc := fstest.MapFS{}, fstest.MapFS{}
	for n, far := range layout.Far {
		sys["devices/system/node/online"] = &fstest.MapFile{Data: fmt.Appendf(nil, "0-%d\n", len(far)-1)}
		sys[fmt.Sprintf("devices/system/node/node%d/distance", n)] = &fstest.MapFile{Data: []byte(strings.Trim(fmt.Sprint(far), "[]") + "\n")}
	}
	for _, g := range layout.GPUs {
		dir := function(sys, g.Location)
		if layout.Vendor == "amd" {
			sys[fmt.Sprintf("class/drm/renderD%d", 128+g.Minor)] = &fstest.MapFile{Data: []byte("../../" + dir + "/drm/x"), Mode: fs.ModeSymlink}
			sys[dir+"/vendor"] = &fstest.MapFile{Data: []byte("0x1002\n")}
			continue
		}
		proc["driver/nvidia/gpus/"+g.PCI+"/information"] = &fstest.MapFile{Data: fmt.Appendf(nil, "Device Minor: \t %d\n", g.Minor)}
	}
	m := Machine{Layout: layout, Name: name, Sys: sys, Proc: proc}
	for _, h := range layout.HCAs {
		function(sys, h.At)
		list := &m.HCAs
		if h.Refused() != "" {
			list = &m.Others
		}
		*list = append(*list, h.HCA)
	}
	return m, nil
}

// function makes the files of a PCI function, and returns its folder.
func function(sys fstest.MapFS, at node.Location) string {
	dir := path.Join("devices", path.Join(at.Path...), at.PCI)
	sys[dir+"/numa_node"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", at.NUMA)}
	sys["bus/pci/devices/"+at.PCI] = &fstest.MapFile{Data: []byte("../../../" + dir), Mode: fs.ModeSymlink}
	return dir
}
