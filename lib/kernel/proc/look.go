package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/detach"
)

// looker looks at all processes aside: how long that takes is for users to decide, who have as many
// processes and threads as they like and can keep folders of /proc from being read.
var looker = detach.New("gresnet-look", lookChild)

// lookOthers is what a looker says when it begins with others' processes. All else that it says is PID NAME.
const lookOthers = "others"

// lookTimeout is a variable for tests.
var lookTimeout = poll.ProcessLook

// enough is how many processes inside a namespace end a look.
const enough = 8

// Inside returns processes with a thread in a network namespace, told by the device and inode number that a
// netns.NS has, "4:4026531840": the first that are found. Processes of a user and root's are looked at first.
// If only others' are too many to be looked at in time, there is no error: no user keeps another one's
// namespace. With NoUser all are looked at in time, or there is an error.
func Inside(namespace string, uid uint32) ([]Process, error) {
	return look("inside", namespace, strconv.FormatUint(uint64(uid), 10))
}

// NoUser is nobody's user id.
const NoUser = math.MaxUint32

// Runs tells whether a process has a name. The kernel keeps the first 15 bytes
// (linux/sched.h:TASK_COMM_LEN).
func Runs(name string) (bool, error) {
	list, err := look("named", name[:min(len(name), 15)])
	return len(list) > 0, err
}

// look has a looker look.
func look(what ...string) (list []Process, err error) {
	others := false
	at, err := looker.Ask(time.Now().Add(lookTimeout), 0, func(message string, _ int) error {
		if others = others || message == lookOthers; message != lookOthers {
			number, name, _ := strings.Cut(message, " ")
			pid, _ := strconv.Atoi(number)
			list = append(list, Process{pid, name})
		}
		return nil
	}, what...)
	if err != nil && !(errors.Is(err, detach.ErrHeldUp) && (others || len(list) > 0)) {
		return nil, fmt.Errorf("look at all processes, at %s: %w", cmp.Or(at, "/proc"), err)
	}
	return list, nil
}

// lookChild is the looker. Its arguments are look's.
func lookChild(args []string, say detach.Say) error {
	pids, err := numbers("/proc")
	if err != nil {
		return err
	}
	mine, others, most := pids, []int(nil), 1
	is := func(pid int) bool {
		name, err := nameOf(pid)
		return err == nil && name == args[1]
	}
	if args[0] == "inside" {
		mine, others = divide(pids, args[2])
		most = enough
		is = func(pid int) bool { return isInside(pid, args[1]) }
	}
	progress, found := TellProgress(say), 0
	for i, pid := range slices.Concat(mine, others) {
		if i == len(mine) {
			if err := say(lookOthers, -1); err != nil {
				return err
			}
		}
		progress.At(pid, 0)
		if pid == os.Getppid() || pid == os.Getpid() || !is(pid) {
			continue
		}
		name, err := nameOf(pid)
		if err != nil {
			continue // it has ended
		}
		if err := say(fmt.Sprintf("%d %s", pid, name), -1); err != nil {
			return err
		}
		if found++; found == most {
			break
		}
	}
	return nil
}

// divide puts the processes of a user and root's before those of others.
func divide(pids []int, uid string) (mine, others []int) {
	if uid == strconv.FormatUint(NoUser, 10) {
		return pids, nil
	}
	for _, pid := range pids {
		if _, real, err := UserOf(pid); err == nil && real != 0 && strconv.FormatUint(uint64(real), 10) != uid {
			others = append(others, pid)
		} else {
			mine = append(mine, pid)
		}
	}
	return mine, others
}

func nameOf(pid int) (string, error) {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return string(bytes.TrimSuffix(comm, []byte("\n"))), err
}

// isInside tells whether a thread of a process is in a network namespace.
func isInside(pid int, namespace string) bool {
	tasks, _ := numbers(fmt.Sprintf("/proc/%d/task", pid))
	return slices.ContainsFunc(tasks, func(task int) bool {
		var st unix.Stat_t
		err := unix.Stat(fmt.Sprintf("/proc/%d/task/%d/ns/net", pid, task), &st)
		return err == nil && fmt.Sprintf("%d:%d", st.Dev, st.Ino) == namespace
	})
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
