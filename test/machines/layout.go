package machines

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/node"
)

// Layout says where a node's GPUs and HCAs sit.
//
// A file has a line for each fact, and comments that begin with #:
//
//	# source: where the layout is from
//	numa N D D …              distances from NUMA node N to nodes 0, 1, …
//	gpuMINOR NUMA PATH        a GPU, by its device's minor number; PATH has the PCI addresses from the root down
//	hca:NAME[:FLAG] NUMA PATH an HCA; with a flag (mgmt, nvsw, down) no job gets it; stor: it is storage's, and
//	                          sits where no GPU is
//	job GPUS HCA …            the HCAs of a job that has these GPUs, by Slurm's numbers, and asks for no HCA
//	pair …                    what another program takes for a GPU's: not read
//
// After its PATH an HCA can have
//
//	driver=NAME
//	port=NUMBER/LINK/STATE/INTERFACE  a port, or less of that; one for each
//	bond=NAME                         the bond to which the ports' interfaces belong
//	vfs=NOW/MOST                      how many VFs it has, and can have; vfs=NOW/MOST/switchdev: in switchdev mode
//	vf=ADDRESS/NUMBER                 it is a VF: its PF's PCI address, and its number there
//	aux=NAME                          which device of the auxiliary bus it is, if several share the PCI function
//
// "# vendor: amd" says that the GPUs are not NVIDIA's.
type Layout struct {
	Vendor string // of the GPUs: nvidia or amd
	GPUs   []GPU
	HCAs   []HCA
	Jobs   []Job
	Far    map[int][]int // the distances from a NUMA node to nodes 0, 1, …
}

// GPU is a GPU, and where it sits.
type GPU struct {
	Minor int
	node.Location
}

// HCA is an HCA, and where it sits.
type HCA struct {
	node.HCA
	Flag string
	At   node.Location
	Bond string // to which its ports' interfaces belong
	VFs  *VFs   // nil: the layout does not say
}

// VFs is how many VFs a PF has and can have, and whether its eswitch is in switchdev mode.
type VFs struct {
	Now, Most int
	Switchdev bool
}

// Refused says why no job gets the HCA as a whole where the site lists none; empty: jobs can get it.
func (h HCA) Refused() string {
	switch {
	case h.Flag != "" && h.Flag != storage:
		return "the layout has it as " + h.Flag
	case h.ID.VF != "":
		return "it is a VF"
	case h.ID.IsSubfunction():
		return "it is a subfunction"
	case h.Bond != "":
		return "its interfaces belong to " + h.Bond
	}
	return ""
}

// Job is what a job's GPUs are, and the names of the HCAs that it gets.
type Job struct {
	GPUs []int
	HCAs []string
}

// The flags of an HCA.
const (
	management = "mgmt" // of the node
	switches   = "nvsw" // Fabric Manager manages NVSwitches by it
	down       = "down" // no port of it carries anything
	storage    = "stor"
)

// switchdev is the mode of an eswitch in which VFs have representors.
const switchdev = "switchdev"

// parse reads a layout. name is the file's, for errors.
func parse(name, text string) (Layout, error) {
	m := Layout{Vendor: "nvidia", Far: map[int][]int{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if err := m.read(line, number); err != nil {
			return Layout{}, fmt.Errorf("read %s:%d: %w: %.100q", name, number, err, line)
		}
	}
	for i := range m.GPUs {
		m.GPUs[i].Location.Far = m.far(m.GPUs[i].NUMA)
	}
	for i := range m.HCAs {
		m.HCAs[i].At.Far = m.far(m.HCAs[i].At.NUMA)
	}
	if err := m.check(); err != nil {
		return Layout{}, fmt.Errorf("read %s: %w", name, err)
	}
	return m, nil
}

// far returns the distances from a NUMA node to the others, nil if the layout does not say.
func (m Layout) far(numa int) map[int]int {
	if len(m.Far[numa]) == 0 {
		return nil
	}
	return maps.Collect(slices.All(m.Far[numa]))
}

// read reads a line.
func (m *Layout) read(line string, number int) (err error) {
	if comment, is := strings.CutPrefix(line, "#"); is {
		if vendor, is := strings.CutPrefix(strings.TrimSpace(comment), "vendor:"); is {
			m.Vendor = strings.TrimSpace(vendor)
		}
		return nil
	}
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	kind, rest, _ := strings.Cut(words[0], ":")
	switch {
	case kind == "hca" && len(words) > 2:
		h := HCA{}
		h.Name, h.Flag = named(rest)
		if h.At, err = locate(words[1], words[2]); err != nil {
			return err
		}
		// Real GUIDs are nobody's business.
		h.ID = node.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", number&0xffff), PCI: h.At.PCI}
		m.HCAs = append(m.HCAs, h)
		return m.HCAs[len(m.HCAs)-1].describe(words[3:])
	case words[0] == "pair": // what NCCL or RCCL take for a GPU's: not what jobs get
		return nil
	case words[0] == "numa" && len(words) > 2:
		return m.distances(words[1], words[2:])
	case words[0] == "job" && len(words) > 1:
		gpus, err := node.ParseIndices(words[1])
		m.Jobs = append(m.Jobs, Job{gpus, words[2:]})
		return err
	case strings.HasPrefix(kind, "gpu") && len(words) == 3:
		minor, err := strconv.Atoi(strings.TrimPrefix(words[0], "gpu"))
		if err != nil {
			return errors.New("no minor number of a GPU")
		}
		at, err := locate(words[1], words[2])
		m.GPUs = append(m.GPUs, GPU{minor, at})
		return err
	}
	return errors.New("no line of a layout")
}

func (m *Layout) distances(from string, to []string) error {
	n, err := strconv.Atoi(from)
	m.Far[n] = nil
	for _, word := range to {
		far, bad := strconv.Atoi(word)
		if err != nil || bad != nil {
			return errors.New("no distances of a NUMA node")
		}
		m.Far[n] = append(m.Far[n], far)
	}
	return nil
}

var isFunction = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// locate returns where a device is at the end of a path.
func locate(numa, dir string) (at node.Location, err error) {
	at = node.Location{PCI: path.Base(dir), Path: strings.Split(path.Dir(dir), "/")}
	if at.NUMA, err = strconv.Atoi(numa); err != nil || at.NUMA < -1 {
		return at, fmt.Errorf("no NUMA node %q", numa)
	}
	if !isFunction.MatchString(at.PCI) {
		return at, fmt.Errorf("no PCI address %q", at.PCI)
	}
	return at, nil
}

var flags = []string{management, switches, down, storage}

// named returns an HCA's name, which may have colons, and its flag.
func named(text string) (name, flag string) {
	i := strings.LastIndex(text, ":")
	if i >= 0 && slices.Contains(flags, text[i+1:]) {
		return text[:i], text[i+1:]
	}
	return text, ""
}

// describe reads what a line says of an HCA after its place.
func (h *HCA) describe(words []string) error {
	if h.Name == "" {
		return errors.New("no name of an HCA")
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		good := true
		switch key {
		case "driver":
			h.Driver = value
		case "bond":
			h.Bond = value
		case "aux":
			h.ID.Aux = value
		case "port":
			good = h.addPort(value)
		case "vf":
			good = h.isVF(value)
		case "vfs":
			good = h.hasVFs(value)
		default:
			return fmt.Errorf("nothing is called %q", key)
		}
		if !good {
			return fmt.Errorf("no %s %q", key, value)
		}
	}
	return nil
}

func (h *HCA) addPort(text string) bool {
	parts := append(strings.SplitN(text, "/", 4), "", "", "")
	number, err := strconv.ParseUint(parts[0], 10, 8)
	h.Ports = append(h.Ports, node.Port{Num: uint32(number), LinkLayer: parts[1], State: parts[2], Interface: parts[3]})
	return err == nil && number > 0
}

func (h *HCA) isVF(text string) bool {
	pf, vf, _ := strings.Cut(text, "/")
	number, err := strconv.ParseUint(vf, 10, 16)
	h.GUID, h.Function, h.ID = h.ID.GUID, h.At.PCI, node.ID{PCI: pf, VF: vf, Aux: h.ID.Aux}
	return err == nil && vf == fmt.Sprint(number)
}

func (h *HCA) hasVFs(text string) bool {
	numbers, mode, has := strings.Cut(text, "/"+switchdev)
	now, most, _ := strings.Cut(numbers, "/")
	n, bad := strconv.ParseUint(now, 10, 16)
	m, err := strconv.ParseUint(most, 10, 16)
	h.VFs = &VFs{Now: int(n), Most: int(m), Switchdev: has}
	return bad == nil && err == nil && n <= m && mode == ""
}

// check wants each device to be there once, and what jobs are said to get.
func (m Layout) check() error {
	seen := map[string]bool{}
	once := func(what string) error {
		if seen[what] {
			return fmt.Errorf("%s is there twice", what)
		}
		seen[what] = true
		return nil
	}
	for _, g := range m.GPUs {
		if err := errors.Join(once(g.PCI), once(fmt.Sprintf("gpu%d", g.Minor))); err != nil {
			return err
		}
	}
	for _, h := range m.HCAs {
		if err := errors.Join(once("hca:"+h.Name), once(h.ID.String())); err != nil {
			return err
		}
		if h.ID.VF != "" && !slices.ContainsFunc(m.HCAs, func(pf HCA) bool { return pf.At.PCI == h.ID.PCI && pf.ID.VF == "" }) {
			return fmt.Errorf("%s is a VF of %s, which is not there", h.Name, h.ID.PCI)
		}
	}
	for _, j := range m.Jobs {
		for _, g := range j.GPUs {
			if g >= len(m.GPUs) {
				return fmt.Errorf("job %s has GPU %d, and there are %d", node.FormatIndices(j.GPUs), g, len(m.GPUs))
			}
		}
		for _, h := range j.HCAs {
			if !seen["hca:"+h] {
				return fmt.Errorf("job %s gets %s, which is not there", node.FormatIndices(j.GPUs), h)
			}
		}
	}
	return nil
}
