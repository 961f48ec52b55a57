package vm

import (
	"fmt"
	"slices"
)

// Lane is one kind of VM and the tests that run in it. Each folder with tests for the lane
// gets a VM of its own.
type Lane struct {
	Suite  string // Debian release of the user space
	Kernel string // series of the kernel
	Mode   Class  // Shared or Exclusive
	Shape  Class  // PCI, VF, IGB, TwoNodes, Managed, MLX5, TwoMLX5, Many, or 0 for one node with four HCAs
	Levels Class  // the tests of these levels
	Only   Class  // if set, of these only the tests whose class has this: EverySlurm
	Arch   string // of the guest, if it is not this machine's: arm64
}

// Runs tells whether a lane runs the tests of a class.
func (l Lane) Runs(c Class) bool {
	fits := c&l.Mode != 0 && c&l.Levels != 0 && c&l.Only == l.Only
	if c&sameInBoth != 0 && l.Levels&Long == 0 {
		fits = fits && l.Mode == Exclusive
	}
	switch l.Shape {
	case Many:
		return fits && c&Many != 0
	case MLX5:
		return fits && c&(MLX5|OnMLX5) != 0
	}
	return fits && c&places == l.Shape
}

// String names the lane.
func (l Lane) String() string {
	text := fmt.Sprintf("%s %s %s", l.Suite, l.Kernel, modeNames[l.Mode])
	if l.Shape != 0 {
		text += " " + l.Shape.String()
	}
	if l.Arch != "" {
		text += " " + l.Arch
	}
	return text
}

// Arguments returns those that test/vm/vm run takes for the lane.
func (l Lane) Arguments() []string {
	return slices.Concat([]string{"--mode", modeNames[l.Mode]}, l.images(), shapeArguments(l.Shape))
}

// shapeArguments returns those that test/vm/vm run takes for a shape.
func shapeArguments(shape Class) []string {
	switch shape {
	case PCI:
		return []string{"--pci", "--hca", "roce=0"}
	case VF:
		return []string{"--vf", "--hca", "roce=1,ib=1"}
	case IGB:
		return []string{"--igb", "--hca", "roce=0"}
	case TwoNodes:
		return []string{"--nodes", "2", "--hca", "roce=2"}
	case Managed:
		return []string{"--systemd", "--root", managersRoot, "--mem", "3G", "--hca", "roce=2,ib=2"}
	case MLX5:
		return []string{"--mlx5", "roce=1,pairs=1,ib=2"}
	case TwoMLX5:
		return []string{"--nodes", "2", "--mlx5", "roce=1,ib=1"}
	case Many:
		return []string{"--hca", "roce=12,ib=4"}
	default:
		return []string{"--hca", "roce=2,ib=2"}
	}
}

// Image returns the arguments with which test/vm/vm build makes what the lane boots.
func (l Lane) Image() []string {
	arguments := append([]string{"build"}, l.images()...)
	switch l.Shape {
	case IGB: // it and the next take another QEMU
		return append(arguments, "--igb")
	case MLX5, TwoMLX5:
		return append(arguments, shapeArguments(MLX5)...)
	case Managed:
		return append(arguments, "--root", managersRoot)
	}
	return arguments
}

// images returns the arguments that say which user space and kernel the lane boots.
func (l Lane) images() []string {
	arguments := []string{"--suite", l.Suite, "--kernel", l.Kernel}
	if l.Arch != "" {
		arguments = append(arguments, "--arch", l.Arch)
	}
	return arguments
}

// managersRoot says what the user space of a Managed VM has beside that of others.
const managersRoot = "test/guest/managers"

// CI takes the first kernel and the first suite; the long tests take all kernels, and the
// matrix also all suites, which have Slurm 22.05, 24.11 and unstable's. The oldest kernel has
// no stub HCAs, only those of mlx5.
var (
	oldest  = []string{"5.10"}
	kernels = []string{"6.1", "6.12", "backports"}
	suites  = []string{"bookworm", "trixie", "sid"}
)

// Runs are the lanes of each run, by its name.
var Runs = map[string][]Lane{
	"test":        in(Exclusive, lanes(Smoke, suites[:1], kernels[:1], 0, MLX5)),
	"test-vm":     lanes(Smoke|Short, suites[:1], kernels[:1], 0, PCI, VF, MLX5),
	"rest":        slices.Concat(lanes(Short, suites[:1], kernels[:1], 0, PCI, VF), in(Shared, lanes(Smoke, suites[:1], kernels[:1], 0, MLX5))), // what CI runs after `make test`
	"test-long":   slices.Concat(lanes(levels, suites[:1], kernels, 0, Many, TwoNodes, PCI, VF, IGB, Managed, MLX5, TwoMLX5), lanes(levels, suites[:1], oldest, MLX5, TwoMLX5), onArm64(lanes(Smoke, suites[:1], kernels[:1], 0))),
	"test-matrix": only(EverySlurm, lanes(levels, suites, kernels, 0, Many, TwoNodes)),
}

// lanes returns those of each suite, kernel, shape and mode, for tests of some levels.
func lanes(levels Class, suites, kernels []string, shapes ...Class) (all []Lane) {
	for _, suite := range suites {
		for _, kernel := range kernels {
			for _, shape := range shapes {
				for _, mode := range []Class{Exclusive, Shared} {
					all = append(all, Lane{Suite: suite, Kernel: kernel, Mode: mode, Shape: shape, Levels: levels})
				}
			}
		}
	}
	return all
}

// in returns the lanes of one mode.
func in(mode Class, lanes []Lane) []Lane {
	return slices.DeleteFunc(lanes, func(l Lane) bool { return l.Mode != mode })
}

// onArm64 has lanes run on guests of that architecture, which are emulated on this one.
func onArm64(lanes []Lane) []Lane {
	for i := range lanes {
		lanes[i].Arch = "arm64"
	}
	return lanes
}

// only limits lanes to the tests of a class.
func only(c Class, lanes []Lane) []Lane {
	for i := range lanes {
		lanes[i].Only = c
	}
	return lanes
}
