package sysfs

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"gresnet/lib/base/node"
)

// CPUs returns how many CPUs the node has online.
func CPUs(sys fs.FS) (int, error) {
	list, err := cpusIn(sys, "devices/system/cpu/online")
	return len(list), err
}

// Cores returns the cores of NUMA nodes as Slurm numbers them (gres.conf(5),
// Cores=): one after the other, socket by socket, whatever the numbers of their
// threads are.
func Cores(sys fs.FS, numas ...int) (map[int][]int, error) {
	order, of, err := coresOf(sys)
	if err != nil {
		return nil, err
	}
	cores := map[int][]int{}
	for _, numa := range numas {
		near, err := cpusIn(sys, fmt.Sprintf("devices/system/node/node%d/cpulist", numa))
		if err != nil {
			return nil, err
		}
		var list []int
		for _, cpu := range near {
			if c, online := of[cpu]; online {
				list = append(list, slices.Index(order, c))
			}
		}
		slices.Sort(list)
		cores[numa] = slices.Compact(list)
	}
	return cores, nil
}

// Threads returns how many CPUs each core has, as Slurm counts them: as many as the others.
func Threads(sys fs.FS) (int, error) {
	cores, of, err := coresOf(sys)
	if err != nil {
		return 0, err
	}
	return max(1, len(of)/max(1, len(cores))), nil
}

// coresOf returns the cores that are online, each once, in Slurm's order, and the core of
// each CPU.
func coresOf(sys fs.FS) (order []core, of map[int]core, err error) {
	all, err := cpusIn(sys, "devices/system/cpu/online")
	if err != nil {
		return nil, nil, err
	}
	of = map[int]core{}
	seen := map[core]bool{}
	for _, cpu := range all {
		c, err := coreOf(sys, cpu)
		if err != nil {
			return nil, nil, err
		}
		if of[cpu] = c; !seen[c] { // in the order of its first thread
			seen[c] = true
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b core) int { return a.socket - b.socket })
	return order, of, nil
}

func cpusIn(sys fs.FS, file string) ([]int, error) {
	text, err := read(sys, file)
	if err != nil {
		return nil, fmt.Errorf("list CPUs: %w", err)
	}
	list, err := cpuList(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return list, nil
}

// core is a core of a socket, whose number is its socket's own.
type core struct{ socket, number int }

func coreOf(sys fs.FS, cpu int) (core, error) {
	var c core
	for name, number := range map[string]*int{"physical_package_id": &c.socket, "core_id": &c.number} {
		file := fmt.Sprintf("devices/system/cpu/cpu%d/topology/%s", cpu, name)
		text, err := read(sys, file)
		if err != nil {
			return core{}, fmt.Errorf("find the core of CPU %d: %w", cpu, err)
		}
		if *number, err = strconv.Atoi(text); err != nil {
			return core{}, fmt.Errorf("read %s: %q is no number", file, text)
		}
	}
	return c, nil
}

// maxCPU bounds a list: no kernel is built for more.
const maxCPU = 1<<16 - 1

// cpuList reads "0-3,8" (lib/bitmap.c:bitmap_print_to_pagebuf). Memory without
// CPUs has an empty one.
func cpuList(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	ranges, err := node.ParseRanges(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no list of CPUs: %w", text, err)
	}
	var cpus []int
	for _, r := range ranges {
		if r.High > maxCPU {
			return nil, fmt.Errorf("%q is no list of CPUs: there is no CPU %d", text, r.High)
		}
		for cpu := r.Low; cpu <= r.High; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
