package gres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/slurm"
)

// SlurmGPUs is what Slurm's files say of a node's GPUs: which of them Slurm means by a number.
//
// Slurm numbers GPUs as its configuration has them, whatever their device nodes are called
// (src/plugins/gres/gpu/gres_gpu.c:_merge_system_gres_conf). Without AutoDetect it takes them in the
// order of their File= lines. The AutoDetect of a vendor's library orders them by PCI address, and that
// of NVIDIA's driver by the names of their device nodes.
type SlurmGPUs struct {
	Detect  string         // AutoDetect of gres.conf
	Devices []slurm.Device // in Slurm's order; those that slurmd is to find have no file
	Dynamic bool           // slurm.conf has no line for the node, so only its slurmd knows in which order its types are
}

// The words of AutoDetect.
const (
	nvml   = "nvml"
	rsmi   = "rsmi"
	oneAPI = "oneapi"
	driver = "nvidia"
	full   = "full" // the first of these that finds a GPU
)

// SlurmGPUsOf returns what gres.conf and slurm.conf say of a node.
func SlurmGPUsOf(gres, conf slurm.Conf, name string) (SlurmGPUs, error) {
	devices, err := slurm.Merge(gres, conf, name, "gpu")
	return SlurmGPUs{Detect: gres.AutoDetect(name), Devices: devices, Dynamic: !conf.Lists(name)}, err
}

// readSlurm reads slurm.conf and the gres.conf beside it. file is slurm.conf's path; empty: it is in one of the usual
// places. host is the node's name, or its host's. A node without these files says nothing.
func readSlurm(root fs.FS, file, host string) (SlurmGPUs, error) {
	if root == nil {
		return SlurmGPUs{}, nil
	}
	type answer struct {
		SlurmGPUs
		err error
	}
	a, read := poll.Within(context.Background(), poll.SlurmConf, func() answer {
		s, err := readFiles(root, file, host)
		return answer{s, err}
	})
	if !read {
		return SlurmGPUs{}, hint.With(errors.New("number the GPUs: read gres.conf and slurm.conf: no answer in time"), "GN541 see whether the file system with slurm.conf answers: stat -f, mount")
	}
	if a.err != nil {
		return SlurmGPUs{}, hint.With(fmt.Errorf("number the GPUs: %w", a.err), "GN540 correct what Slurm does not read: gresnet check")
	}
	return a.SlurmGPUs, nil
}

func readFiles(root fs.FS, file, host string) (SlurmGPUs, error) {
	file = slurm.Find(root, file)
	gresFile := path.Join(path.Dir(file), "gres.conf")
	if file == "" || !slurm.Exists(root, file) || !slurm.Exists(root, gresFile) {
		return SlurmGPUs{}, nil
	}
	conf, err := slurm.Read(root, file)
	if err != nil {
		return SlurmGPUs{}, err
	}
	gres, err := slurm.Read(root, gresFile)
	if err != nil {
		return SlurmGPUs{}, err
	}
	name, err := conf.Node(host)
	if err != nil {
		return SlurmGPUs{}, err
	}
	said, err := SlurmGPUsOf(gres, conf, name)
	return said.Follow(root), err
}

// Follow returns what Slurm's files say, with the devices that links lead to: a site may name its GPUs by links of udev's.
func (s SlurmGPUs) Follow(root fs.FS) SlurmGPUs {
	s.Devices = slices.Clone(s.Devices)
	for i, d := range s.Devices {
		s.Devices[i].File = follow(root, d.File)
		s.Devices[i].More = nil
		for _, file := range d.More {
			s.Devices[i].More = append(s.Devices[i].More, follow(root, file))
		}
	}
	return s
}

// follow returns where a path leads to, in as many links as the kernel follows (path_resolution(7)).
func follow(root fs.FS, file string) string {
	for range 40 {
		target, err := fs.ReadLink(root, strings.TrimPrefix(path.Clean(file), "/"))
		if err != nil {
			break
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(file), target)
		}
		file = target
	}
	return file
}

// GPUNumbers are those of a node's GPUs. It reads Slurm's files once.
type GPUNumbers struct {
	once  sync.Once
	slurm SlurmGPUs
	err   error
}

// Order is that of Slurm's files; see Read, and Slurm's Order. unknown is why nothing tells it: then it
// is that of the PCI addresses. Without a GPU the files are not read.
func (n *GPUNumbers) Order(have []sysfs.GPU, root fs.FS, file, host string) (gpus []node.Location, unknown error) {
	if len(have) == 0 {
		return nil, nil
	}
	n.once.Do(func() { n.slurm, n.err = readSlurm(root, file, host) })
	if n.err == nil {
		gpus, unknown = n.slurm.Order(have)
	}
	if unknown = cmp.Or(n.err, unknown); unknown != nil {
		return locations(have), unknown
	}
	return gpus, nil
}

// Silent tells whether Slurm's files do not say which GPUs they mean.
func (s SlurmGPUs) Silent(have []sysfs.GPU) bool {
	switch s.Detect {
	case nvml, rsmi, oneAPI, driver, full:
		return false
	}
	return !slices.ContainsFunc(s.Devices, func(d slurm.Device) bool { return gpuOf(have, d) >= 0 })
}

// Order returns where GPUs are, in the order in which Slurm numbers them. One that the kernel does not
// have has no PCI address. Where Slurm's files say nothing, they are in the order of their PCI addresses.
// have is in that order.
func (s SlurmGPUs) Order(have []sysfs.GPU) ([]node.Location, error) {
	if s.Dynamic && slices.ContainsFunc(s.Devices, func(d slurm.Device) bool { return d.Type != s.Devices[0].Type }) {
		return nil, unknown("slurm.conf has no line for the node, and slurmd has its types in the order of its --conf")
	}
	switch s.Detect {
	case nvml, oneAPI:
		return s.detected(eachPart(have), byLibrary)
	case rsmi:
		if i := slices.IndexFunc(have, isDivided); i >= 0 {
			return nil, unknown("GPU %s is divided, and nothing tells in which order AutoDetect=%s has its parts", have[i].PCI, s.Detect)
		}
		return s.detected(have, byLibrary)
	case driver:
		return s.detected(have, byFile)
	case full:
		a, errA := s.detected(eachPart(have), byLibrary)
		b, errB := s.detected(have, byFile)
		if errA == nil && errB == nil && !slices.EqualFunc(a, b, func(a, b node.Location) bool { return a.PCI == b.PCI }) {
			errA = unknown("AutoDetect=full has them by their PCI addresses or by their device nodes, which differ")
		}
		return a, cmp.Or(errA, errB)
	}
	byVFIO := slices.IndexFunc(s.Devices, func(d slurm.Device) bool { return strings.HasPrefix(d.File, "/dev/vfio/") })
	switch i := slices.IndexFunc(have, isDivided); {
	case !s.Silent(have):
		return s.listed(have), nil
	case byVFIO >= 0:
		return nil, unknown("%s is of no GPU that can be found", s.Devices[byVFIO].File)
	case i >= 0:
		return nil, unknown("GPU %s is divided, and no line has its parts", have[i].PCI)
	}
	return locations(have), nil
}

func unknown(format string, a ...any) error {
	return hint.With(fmt.Errorf("number the GPUs by gres.conf: %s", fmt.Sprintf(format, a...)),
		"GN542 say in the [[hca]] entries which GPUs, by Slurm's numbers, each serves (gpus = )")
}

func isDivided(g sysfs.GPU) bool { return g.Parts > 0 }

func locations(gpus []sysfs.GPU) (list []node.Location) {
	for _, g := range gpus {
		list = append(list, g.Location)
	}
	return list
}

// gpuOf returns which GPU a device is, or is a part of; -1: none.
func gpuOf(have []sysfs.GPU, d slurm.Device) int {
	for _, file := range append([]string{d.File}, d.More...) {
		file = path.Clean(file)
		by, isPath := strings.CutPrefix(file, "/dev/dri/by-path/pci-")
		i := slices.IndexFunc(have, func(g sysfs.GPU) bool {
			return slices.Contains(g.Files, file) || isPath && strings.HasPrefix(by, g.PCI+"-")
		})
		if i >= 0 {
			return i
		}
	}
	return -1
}

// listed returns the GPUs of File= lines.
func (s SlurmGPUs) listed(have []sysfs.GPU) (list []node.Location) {
	for _, d := range s.Devices {
		if i := gpuOf(have, d); i >= 0 {
			list = append(list, have[i].Location)
		} else if d.File != "" {
			list = append(list, node.Location{NUMA: -1})
		}
	}
	return list
}

// byLibrary compares GPUs as Slurm orders those that a vendor's library found: whole ones by PCI address,
// which is the order that they are in, and then the parts of others by their device nodes. Slurm 22.05
// put parts among the whole ones.
func byLibrary(a, b sysfs.GPU) int {
	if isDivided(a) && isDivided(b) {
		return byFile(a, b)
	}
	return min(a.Parts, 1) - min(b.Parts, 1)
}

func byFile(a, b sysfs.GPU) int { return a.Minor - b.Minor }

// eachPart has each part of a GPU on its own.
func eachPart(have []sysfs.GPU) (list []sysfs.GPU) {
	for _, g := range have {
		for range max(g.Parts, 1) {
			list = append(list, g)
		}
	}
	return list
}

// detected returns the GPUs that slurmd finds and that slurm.conf counts. What a line has and slurmd does
// not find comes after them.
func (s SlurmGPUs) detected(have []sysfs.GPU, order func(a, b sysfs.GPU) int) ([]node.Location, error) {
	found := slices.Clone(have)
	slices.SortStableFunc(found, byFile) // the order in which Slurm counts them
	var counted []sysfs.GPU
	var others []node.Location
	var open []slurm.Device // devices whose file no line has
	for _, d := range s.Devices {
		i := gpuOf(found, d)
		switch {
		case d.File == "":
			open = append(open, d)
		case i < 0:
			others = append(others, node.Location{NUMA: -1})
		default:
			counted, found = append(counted, found[i]), slices.Delete(found, i, i+1)
		}
	}
	if len(s.Devices) == 0 {
		open = make([]slurm.Device, len(found))
	}
	if len(open) < len(found) && slices.ContainsFunc(open, func(d slurm.Device) bool { return d.Type != "" }) {
		return nil, unknown("slurm.conf counts %d of the node's %d GPUs, by their types", len(counted)+len(open), len(counted)+len(found))
	}
	counted = append(counted, found[:min(len(open), len(found))]...)
	slices.SortStableFunc(counted, func(a, b sysfs.GPU) int {
		return cmp.Or(order(a, b), len(a.PCI)-len(b.PCI), strings.Compare(a.PCI, b.PCI))
	})
	return append(locations(counted), others...), nil
}
