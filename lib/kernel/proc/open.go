package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Number is the number of a device.
type Number struct{ Major, Minor uint32 }

// Openers looks for the processes that have devices open of HCAs or of RDMA-CM. It is for a process that
// can be left behind (package detach): a user decides how long it takes, and some of what it asks waits
// for as long as a user likes. It looks at each table of descriptors once, however many processes and
// threads share it.
type Openers struct {
	Devices []Number

	// At is told which process is looked at, and whose table is compared with that process's; 0: nobody's.
	At func(pid, other int)
	// See is told of each process that has one of the devices open, and ends the look if it says no.
	See func(pid int, device Number) bool

	tables []table // in the order that the kernel tells (kcmp(2))
	links  int     // that were read
}

// table is a table of descriptors.
type table struct {
	task int // which has it, or had
	has  []Number
}

// Look looks at all processes but this one, which are those that it finds in /proc.
func (o *Openers) Look() error {
	pids, err := numbers("/proc")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		o.At(pid, 0)
		tasks, _ := numbers(filepath.Join("/proc", strconv.Itoa(pid), "task")) // it may have ended
		var has []Number
		for _, task := range tasks {
			for _, device := range o.has(pid, task) {
				if !slices.Contains(has, device) {
					has = append(has, device)
				}
			}
		}
		for _, device := range has {
			if !o.See(pid, device) {
				return nil
			}
		}
	}
	return nil
}

// has returns which of the devices a thread has open.
func (o *Openers) has(pid, task int) []Number {
	place, known := slices.BinarySearchFunc(o.tables, task, func(t table, task int) int {
		o.At(pid, t.task)
		return compareTables(t.task, task)
	})
	if !known {
		o.At(pid, 0)
		o.tables = slices.Insert(o.tables, place, table{task, o.read(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(task), "fd"))})
	}
	return o.tables[place].has
}

// compareTables compares the tables of descriptors of two threads by an order that the kernel has for them.
// One that has ended, and each where the kernel does not compare, comes before all others: then a table may
// be looked at twice.
func compareTables(a, b int) int {
	const files = 2 // KCMP_FILES, linux/kcmp.h
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), files, 0, 0, 0)
	switch {
	case errno == 0 && order == 0:
		return 0
	case errno == 0 && order == 2:
		return 1
	}
	return -1
}

// read reads a folder of descriptors. A user can give any file such a name: so no file is asked what it is
// but by what the kernel knows already, without its file system (AT_STATX_DONT_SYNC).
func (o *Openers) read(folder string) (has []Number) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil // it has ended
	}
	defer dir.Close()
	const some, longest = 1024, 4096
	link := make([]byte, longest)
	for {
		names, err := dir.Readdirnames(some)
		for _, name := range names {
			o.links++
			n, err := unix.Readlinkat(int(dir.Fd()), name, link)
			if err != nil || !isCharLink(string(link[:n])) {
				continue
			}
			var st unix.Statx_t
			err = unix.Statx(int(dir.Fd()), name, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
			if device := (Number{st.Rdev_major, st.Rdev_minor}); err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && slices.Contains(o.Devices, device) && !slices.Contains(has, device) {
				has = append(has, device)
			}
		}
		if err != nil || len(names) == 0 || len(has) == len(o.Devices) {
			return has
		}
	}
}

// isCharLink tells what /proc/PID/fd says of a descriptor of a device node of an HCA or of
// RDMA-CM, wherever that is and whether it is still there.
func isCharLink(link string) bool {
	name := strings.TrimSuffix(link, " (deleted)")
	name = name[strings.LastIndexByte(name, '/')+1:]
	kind := strings.TrimRight(name, "0123456789")
	return name == "rdma_cm" || (kind == "uverbs" || kind == "umad" || kind == "hfi1_") && kind != name
}

// numbers returns the names in a folder that are numbers.
func numbers(folder string) (list []int, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, err
}
