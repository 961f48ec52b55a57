package sysfs

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// CPUs is how many CPUs the node has online.
func CPUs(sys fs.FS) (int, error) {
	list, err := cpusIn(sys, "devices/system/cpu/online")
	return len(list), err
}

// Cores are the cores of a NUMA node as Slurm numbers them (gres.conf(5),
// Cores=): one after the other, socket by socket, whatever the numbers of their
// threads are.
func Cores(sys fs.FS, numa int) ([]int, error) {
	all, err := cpusIn(sys, "devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	near, err := cpusIn(sys, fmt.Sprintf("devices/system/node/node%d/cpulist", numa))
	if err != nil {
		return nil, err
	}
	var order []core // each once, in the order of its first thread
	var cores []int
	for _, cpu := range all {
		c, err := coreOf(sys, cpu)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b core) int { return a.socket - b.socket })
	for _, cpu := range near {
		c, err := coreOf(sys, cpu)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(order, c); i >= 0 && !slices.Contains(cores, i) {
			cores = append(cores, i)
		}
	}
	slices.Sort(cores)
	return cores, nil
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

// cpuList reads "0-3,8" (lib/bitmap.c:bitmap_print_to_pagebuf). Memory without
// CPUs has an empty one.
func cpuList(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var cpus []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		low, errLow := strconv.ParseUint(first, 10, 16)
		high, errHigh := strconv.ParseUint(last, 10, 16)
		if errLow != nil || errHigh != nil || high < low {
			return nil, fmt.Errorf("%q is no list of CPUs", text)
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
