package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticks is how many of the kernel's units of time a second has in /proc (USER_HZ), on all of Go's ports.
const ticks = 100

// SinceBoot returns the time since the node was booted, sleep included. Nobody can set
// this clock, and it is the same in every namespace of the node's.
func SinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // clock_gettime(2): it cannot fail for this clock
	}
	return time.Duration(t.Nano())
}

// Running returns for how long a process has run. A process keeps its time when it runs another program.
func Running(pid int) (time.Duration, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The name may have anything in it, and ends with the last parenthesis (proc_pid_stat(5)).
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const start = 22 - 3
	if len(fields) <= start {
		return 0, fmt.Errorf("read %s: it has no start time", file)
	}
	at, err := strconv.ParseInt(string(fields[start]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return SinceBoot() - time.Duration(at)*time.Second/ticks, nil
}
