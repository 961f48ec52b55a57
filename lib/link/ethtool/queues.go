package ethtool

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// patterns returns what an administrator sets of the queues of an interface
// (net-sysfs.c), and of its power; what the kernel moves by itself, as a queue's limit, is not among them.
// An interface that is down may have nothing to thread (dev.c:dev_set_threaded).
func patterns(up bool) []string {
	like := []string{
		"gro_flush_timeout", "napi_defer_hard_irqs", "power/control",
		"queues/rx-*/rps_cpus", "queues/rx-*/rps_flow_cnt",
		"queues/tx-*/xps_cpus", "queues/tx-*/xps_rxqs",
		"queues/tx-*/byte_queue_limits/limit_min", "queues/tx-*/byte_queue_limits/limit_max",
		"queues/tx-*/byte_queue_limits/hold_time", "queues/tx-*/byte_queue_limits/stall_thrs",
	}
	if up {
		like = append(like, "threaded")
	}
	return like
}

// Queues is an interface that had a name a moment ago.
type Queues struct {
	Index int
	Name  string
	Up    bool
	Now   func() (name string, err error) // asks for the name that it has now
}

// QueueFolder is the folder in which an interface of the node has the files of its queues. It
// stays that interface's when udev renames it.
type QueueFolder struct{ *os.Root }

// Open opens the folder of an interface. /sys shows the namespace in which it was mounted, so that
// nothing is there of a job's interface: nil.
func (i Queues) Open() (*QueueFolder, error) {
	// Renamed between two looks, and even back, it is found by the next.
	for range 4 {
		root, err := os.OpenRoot(filepath.Join("/sys/class/net", i.Name))
		if err == nil {
			f := &QueueFolder{root}
			if f.of(i.Index) {
				return f, nil
			}
			f.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if i.Name, err = i.Now(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// of tells whether the folder is that of an interface.
func (f *QueueFolder) of(index int) bool {
	text, err := f.ReadFile("ifindex")
	return err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(index)
}

// read reads the files that the kernel has.
func (f *QueueFolder) read(up bool) (map[string]string, error) {
	list := map[string]string{}
	for _, like := range patterns(up) {
		files, err := fs.Glob(f.FS(), like)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := f.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) {
				continue // there is nothing to share out among queues (net-sysfs.c:xps_cpus_show)
			}
			if err != nil {
				return nil, err
			}
			list[file] = strings.TrimSpace(string(text))
		}
	}
	return list, nil
}

// Read reads the files that the kernel has for an interface of the node.
func (i Queues) Read() (map[string]string, error) {
	f, err := i.Open()
	if err != nil || f == nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.read(i.Up)
	if err != nil {
		return nil, fmt.Errorf("read the queues of %s: %w", i.Name, err)
	}
	return list, nil
}

// Apply writes the files that are not as they were.
func (i Queues) Apply(files map[string]string) error {
	f, err := i.Open()
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	have, err := f.read(i.Up)
	if err != nil {
		return fmt.Errorf("read the queues of %s: %w", i.Name, err)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		value := files[file]
		if is, there := have[file]; !there || is == value {
			continue
		}
		if e := f.WriteFile(file, []byte(value), 0); e != nil {
			err = hint.Join(err, fmt.Errorf("set %s of %s: %w", file, i.Name, e))
		}
	}
	return err
}

// Differences names the files that are not as they were.
func (i Queues) Differences(files map[string]string) (diff []string, err error) {
	have, err := i.Read()
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if is, there := have[file]; there && is != files[file] {
			diff = append(diff, fmt.Sprintf("%s is %s, was %s", file, is, files[file]))
		}
	}
	return diff, nil
}
