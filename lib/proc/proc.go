// Package proc looks at the node's processes: whether a job still runs here,
// and who is inside its network namespace. It asks neither Slurm's daemons nor
// its files, whose places a site chooses.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process is a process by what a person knows it by.
type Process struct {
	PID  int
	Name string
}

func (p Process) String() string { return fmt.Sprintf("%s (pid %d)", p.Name, p.PID) }

// Inside are the processes of which a thread is in a network namespace, told
// by the device and inode number that a netns.NS has, "4:4026531840".
func Inside(namespace string) ([]Process, error) {
	return which(func(dir string) bool {
		tasks, _ := filepath.Glob(dir + "/task/[0-9]*/ns/net")
		for _, task := range tasks {
			var st unix.Stat_t
			if err := unix.Stat(task, &st); err == nil && fmt.Sprintf("%d:%d", st.Dev, st.Ino) == namespace {
				return true
			}
		}
		return false
	})
}

// Named are the processes with a name, of which the kernel keeps the first 15
// bytes (linux/sched.h:TASK_COMM_LEN).
func Named(name string) ([]Process, error) {
	name = name[:min(len(name), 15)]
	return which(func(dir string) bool {
		comm, err := os.ReadFile(dir + "/comm")
		return err == nil && string(bytes.TrimSpace(comm)) == name
	})
}

// which lists the processes for which a look at their folder of /proc says yes.
// This process is none of them.
func which(is func(dir string) bool) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var list []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		dir := filepath.Join("/proc", e.Name())
		if err != nil || pid == os.Getpid() || !is(dir) {
			continue
		}
		name, err := os.ReadFile(dir + "/comm")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read the name of process %d: %w", pid, err)
		}
		list = append(list, Process{pid, string(bytes.TrimSpace(name))})
	}
	return list, nil
}
