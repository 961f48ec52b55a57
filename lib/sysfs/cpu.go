package sysfs

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// CPUs is how many CPUs the node has online.
func CPUs(sys fs.FS) (int, error) {
	const file = "devices/system/cpu/online"
	text, err := read(sys, file)
	if err != nil {
		return 0, fmt.Errorf("count the CPUs: %w", err)
	}
	list, err := cpuList(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return len(list), nil
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
