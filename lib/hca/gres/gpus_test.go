package gres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/slurm"
)

// four returns GPUs whose minor numbers, those given, are not in the order of their PCI addresses.
func four(minors ...int) (have []sysfs.GPU) {
	for i, minor := range minors {
		have = append(have, sysfs.GPU{
			Location: node.Location{PCI: fmt.Sprintf("0000:%02x:00.0", i+1)}, Minor: minor,
			Files: []string{fmt.Sprintf("/dev/nvidia%d", minor), fmt.Sprintf("/dev/dri/renderD%d", 128+i)},
		})
	}
	return have
}

// numbered returns the minors in Slurm's order, "-" where there is no such GPU.
func numbered(have []sysfs.GPU, order []node.Location) string {
	var words []string
	for _, at := range order {
		word := "-"
		for _, g := range have {
			if g.PCI == at.PCI {
				word = fmt.Sprint(g.Minor)
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// site returns a node's file system with Slurm's files.
func site(node, gres string) fstest.MapFS {
	root := fstest.MapFS{"etc/slurm/slurm.conf": {Data: []byte("GresTypes=gpu\nNodeName=n[1-4] " + node + "\n")}}
	if gres != "" {
		root["etc/slurm/gres.conf"] = &fstest.MapFile{Data: []byte(gres + "\n")}
	}
	return root
}

func TestGPUsAreNumberedAsSlurmNumbersThem(t *testing.T) {
	plain, mig := four(2, 3, 0, 1), four(2, 3, 0, 1)
	mig[0].Parts, mig[2].Parts = 2, 3
	caps := four(2, 3, 0, 1)
	for i, minors := range [][2]int{{336, 345}, {471, 480}} {
		for _, minor := range minors {
			caps[i].Parts++
			caps[i].Files = append(caps[i].Files, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor))
		}
	}
	vfio := four(0, 1)
	vfio[0].Files, vfio[1].Files = []string{"/dev/vfio/21"}, []string{"/dev/vfio/20"}
	for name, c := range map[string]struct {
		have       []sysfs.GPU
		node, gres string
		want       string
	}{
		"NVIDIA's library finds them":                  {plain, "Gres=gpu:4", "AutoDetect=nvml", "2 3 0 1"},
		"AMD's library finds them":                     {plain, "Gres=gpu:4", "AutoDetect=rsmi", "2 3 0 1"},
		"Intel's library finds them":                   {plain, "Gres=gpu:4", "AutoDetect=oneAPI", "2 3 0 1"},
		"NVIDIA's driver finds them":                   {plain, "Gres=gpu:4", "AutoDetect=nvidia", "0 1 2 3"},
		"one of both finds them, in one order":         {four(0, 1, 2), "Gres=gpu:3", "AutoDetect=full", "0 1 2"},
		"one of both finds them":                       {plain, "Gres=gpu:4", "AutoDetect=full", "AutoDetect=full has them by their PCI addresses or by their device nodes, which differ"},
		"a library finds them on this node":            {plain, "Gres=gpu:4", "AutoDetect=nvidia\nNodeName=n1 AutoDetect=nvml", "2 3 0 1"},
		"a library finds them on another node":         {plain, "Gres=gpu:4", "AutoDetect=nvidia\nNodeName=n2 AutoDetect=nvml", "0 1 2 3"},
		"a library finds none on this node":            {plain, "Gres=gpu:4", "AutoDetect=nvml\nNodeName=n1 AutoDetect=off\nName=gpu File=/dev/nvidia[0-3]", "0 1 2 3"},
		"a library finds them, and lines have them":    {plain, "Gres=gpu:4", "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-3]", "2 3 0 1"},
		"a library finds more than are counted":        {plain, "Gres=gpu:2", "AutoDetect=nvml", "0 1"},
		"a library finds more than lines have":         {plain, "Gres=gpu:3", "AutoDetect=nvml\nName=gpu File=/dev/nvidia[3,0-1]", "3 0 1"},
		"a library finds more than are counted, typed": {plain, "Gres=gpu:a100:2", "AutoDetect=nvml", "slurm.conf counts 2 of the node's 4 GPUs, by their types"},
		"a library finds all of their types":           {plain, "Gres=gpu:a100:2,gpu:h100:2", "AutoDetect=nvml", "2 3 0 1"},
		"a line has one that no library finds":         {plain, "Gres=gpu:5", "AutoDetect=nvml\nName=gpu File=/dev/nvidia9", "2 3 0 1 -"},
		"a dynamic node":                               {plain, "CPUs=1\nNodeName=x", "AutoDetect=nvml", "2 3 0 1"},
		"lines":                                        {plain, "Gres=gpu:4", "Name=gpu File=/dev/nvidia[0-3]", "0 1 2 3"},
		"lines in another order":                       {plain, "Gres=gpu:4", "Name=gpu File=/dev/nvidia3\nName=gpu File=/dev/nvidia[0-2]", "3 0 1 2"},
		"lines of names before lines of nodes":         {plain, "Gres=gpu:4", "NodeName=n1 Name=gpu File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]", "2 3 0 1"},
		"lines whose types have slurm.conf's order":    {plain, "Gres=gpu:b:1,gpu:a:3", "Name=gpu Type=a File=/dev/nvidia[0-2]\nName=gpu Type=b File=/dev/nvidia3", "3 0 1 2"},
		"fewer of a type than lines":                   {plain, "Gres=gpu:a:2,gpu:b:1", "Name=gpu Type=a File=/dev/nvidia[0-2]\nName=gpu Type=b File=/dev/nvidia3", "0 1 3"},
		"lines of render nodes":                        {plain, "Gres=gpu:4", "Name=gpu File=/dev/dri/renderD[129-131]\nName=gpu File=/dev/dri/renderD128", "3 0 1 2"},
		"lines of paths":                               {plain, "Gres=gpu:2", "Name=gpu File=/dev/dri/by-path/pci-0000:02:00.0-render\nName=gpu File=/dev/dri/by-path/pci-0000:01:00.0-card", "3 2"},
		"a line of what the kernel does not have":      {plain, "Gres=gpu:5", "Name=gpu File=/dev/nvidia[0-4]", "0 1 2 3 -"},
		"lines of other files":                         {plain, "Gres=gpu:4", "Name=gpu File=/gres/gpu[0-3]", "2 3 0 1"},
		"a count":                                      {plain, "Gres=gpu:4", "Name=gpu Count=4", "2 3 0 1"},
		"no gres.conf":                                 {plain, "Gres=gpu:4", "", "2 3 0 1"},
		"a library finds parts":                        {mig, "Gres=gpu:7", "AutoDetect=nvml", "3 1 0 0 0 2 2"},
		"AMD's library finds parts":                    {mig, "Gres=gpu:7", "AutoDetect=rsmi", "GPU 0000:01:00.0 is divided, and nothing tells in which order AutoDetect=rsmi has its parts"},
		"lines of parts":                               {mig, "Gres=gpu:3", "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21\nName=gpu MultipleFiles=/dev/nvidia-caps/nvidia-cap30,/dev/nvidia2\nName=gpu File=/dev/nvidia1", "0 2 1"},
		"parts by their own device nodes":              {caps, "Gres=gpu:a100:2,gpu:1g.10gb:4", "Name=gpu Type=a100 File=/dev/nvidia[0,1]\nName=gpu Type=1g.10gb File=/dev/nvidia-caps/nvidia-cap[336,345,471,480]", "0 1 2 2 3 3"},
		"lines of two parts of a GPU":                  {mig, "Gres=gpu:3", "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21\nName=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30\nName=gpu File=/dev/nvidia1", "0 0 1"},
		"VFIO has them":                                {vfio, "Gres=gpu:2", "Name=gpu File=/dev/vfio/[20-21]", "1 0"},
		"VFIO has those that nobody finds":             {plain, "Gres=gpu:2", "Name=gpu File=/dev/vfio/[20-21]", "/dev/vfio/20 is of no GPU that can be found"},
		"nothing has parts":                            {mig, "Gres=gpu:7", "Name=gpu Count=7", "GPU 0000:01:00.0 is divided, and no line has its parts"},
	} {
		t.Run(name, func(t *testing.T) {
			order, err := new(gres.GPUNumbers).Order(c.have, site(c.node, c.gres), "", "n1")
			got := numbered(c.have, order)
			if err != nil {
				got, _ = strings.CutPrefix(err.Error(), "number the GPUs by gres.conf: ")
				if hint.ID(err) != "GN542" || len(order) != len(c.have) {
					t.Errorf("hint %q, %d GPUs", hint.Whole(err), len(order))
				}
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestANodeWithoutSlurmsFilesHasItsGPUsInTheOrderOfTheirPCIAddresses(t *testing.T) {
	have := four(1, 0)
	for name, root := range map[string]fs.FS{"no files are read": nil, "there are none": fstest.MapFS{}} {
		if order, err := new(gres.GPUNumbers).Order(have, root, "", "n1"); err != nil || numbered(have, order) != "1 0" {
			t.Errorf("%s: got %s, %v", name, numbered(have, order), err)
		}
	}
}

func TestFilesThatSlurmDoesNotReadTellNoNumbers(t *testing.T) {
	root := site("Gres=gpu:2", "Name")
	order, err := new(gres.GPUNumbers).Order(four(1, 0), root, "/etc/slurm/slurm.conf", "n1")
	if err == nil || hint.ID(err) != "GN540" || len(order) != 2 {
		t.Errorf("got %v, %v", order, err)
	}
}

// away is a file system whose server does not answer, and which is not asked for want of a GPU.
type away struct{ asked chan struct{} }

func (a away) Open(string) (fs.File, error) {
	<-a.asked
	return nil, errors.New("away")
}

func TestAFileSystemThatDoesNotAnswerTellsNoNumbersAndHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := away{make(chan struct{})}
		if order, err := new(gres.GPUNumbers).Order(nil, root, "/nfs/slurm.conf", "n1"); order != nil || err != nil {
			t.Errorf("without a GPU: %v, %v", order, err)
		}
		if order, err := new(gres.GPUNumbers).Order(four(1, 0), root, "/nfs/slurm.conf", "n1"); hint.ID(err) != "GN541" || len(order) != 2 {
			t.Errorf("got %v, %v", order, err)
		}
		close(root.asked)
	})
}

// slurmd -Z --conf "Gres=gpu:b:2,gpu:a:2" counts b first, whatever gres.conf begins with, and no file has that.
func TestTheOrderOfADynamicNodesTypesIsNotKnown(t *testing.T) {
	const two = "Name=gpu Type=a File=/dev/nvidia[0-1]\nName=gpu Type=b File=/dev/nvidia[2-3]\n"
	for _, c := range []struct{ gres, conf, err string }{
		{two, "GresTypes=gpu\n", "number the GPUs by gres.conf: slurm.conf has no line for the node, and slurmd has its types in the order of its --conf"},
		{two, "NodeName=n1 Gres=gpu:b:2,gpu:a:2\n", ""},
		{"Name=gpu Type=a File=/dev/nvidia[0-3]\n", "GresTypes=gpu\n", ""},
	} {
		lines, err := slurm.ParseFile("gres.conf", c.gres)
		if err != nil {
			t.Fatal(err)
		}
		conf, err := slurm.ParseFile("slurm.conf", c.conf)
		if err != nil {
			t.Fatal(err)
		}
		said, err := gres.SlurmGPUsOf(slurm.Conf(lines.Lines), slurm.Conf(conf.Lines), "n1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := said.Order(four(0, 1, 2, 3)); err == nil && c.err != "" || err != nil && err.Error() != c.err {
			t.Errorf("%s%s%v, want %s", c.gres, c.conf, err, c.err)
		}
	}
}

func TestGPUsAreNumberedThoughGresConfNamesLinksToThem(t *testing.T) {
	root := site("Gres=gpu:2", "Name=gpu File=/dev/site/gpu[0-1]")
	root["dev/site/gpu0"] = &fstest.MapFile{Data: []byte("../again"), Mode: fs.ModeSymlink}
	root["dev/again"] = &fstest.MapFile{Data: []byte("/dev/nvidia1"), Mode: fs.ModeSymlink}
	root["dev/site/gpu1"] = &fstest.MapFile{Data: []byte("../nvidia0"), Mode: fs.ModeSymlink}
	have := four(0, 1)
	order, err := new(gres.GPUNumbers).Order(have, root, "/etc/slurm/slurm.conf", "n1")
	if err != nil || numbered(have, order) != "1 0" {
		t.Errorf("numbered %q, %v", numbered(have, order), err)
	}
}
