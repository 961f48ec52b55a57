package link

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

	"gresnet/lib/hint"
)

// queueFilesLike are what an administrator sets of the queues of an interface
// (net-sysfs.c), and of its power; what the kernel moves by itself, as a queue's limit, is not among them.
// An interface that is down may have nobody to thread (dev.c:dev_set_threaded).
func queueFilesLike(up bool) []string {
	like := []string{
		"gro_flush_timeout", "napi_defer_hard_irqs", "power/control",
		"queues/rx-*/rps_cpus", "queues/rx-*/rps_flow_cnt",
		"queues/tx-*/xps_cpus", "queues/tx-*/xps_rxqs", "queues/tx-*/tx_maxrate",
		"queues/tx-*/byte_queue_limits/limit_min", "queues/tx-*/byte_queue_limits/limit_max",
		"queues/tx-*/byte_queue_limits/hold_time", "queues/tx-*/byte_queue_limits/stall_thrs",
	}
	if up {
		like = append(like, "threaded")
	}
	return like
}

// queues is the folder in which an interface of the node has the files of its queues. It
// stays that interface's when udev renames it.
type queues struct{ *os.Root }

// openQueues opens the folder of an interface that had a name a moment ago. /sys shows the
// namespace in which it was mounted, so that nothing is there of a job's interface: nil.
func (c *Conn) openQueues(i Interface) (*queues, error) {
	// Renamed between two looks, and even back, it is found by the next.
	for range 4 {
		root, err := os.OpenRoot(filepath.Join("/sys/class/net", i.Name))
		if err == nil {
			q := &queues{root}
			if q.of(i.Index) {
				return q, nil
			}
			q.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		now, err := c.Get(i.Index)
		if err != nil {
			return nil, err
		}
		i.Name = now.Name
	}
	return nil, nil
}

// of tells whether the folder is that of an interface.
func (q *queues) of(index int) bool {
	text, err := q.ReadFile("ifindex")
	return err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(index)
}

// files reads those that the kernel has.
func (q *queues) files(up bool) (map[string]string, error) {
	list := map[string]string{}
	for _, like := range queueFilesLike(up) {
		files, err := fs.Glob(q.FS(), like)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := q.ReadFile(file)
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

// queueFiles reads the files that the kernel has for an interface of the node.
func (c *Conn) queueFiles(i Interface) (map[string]string, error) {
	q, err := c.openQueues(i)
	if err != nil || q == nil {
		return nil, err
	}
	defer q.Close()
	list, err := q.files(i.Up)
	if err != nil {
		return nil, fmt.Errorf("read the queues of %s: %w", i.Name, err)
	}
	return list, nil
}

// steering reads which queues processors and receive queues send by. The kernel resets this whenever traffic classes come
// or go (dev.c:netdev_reset_tc), as mqprio's do with a move.
func (c *Conn) steering(i Interface) (map[string]string, error) {
	list, err := c.queueFiles(i)
	maps.DeleteFunc(list, func(file, _ string) bool { return !strings.HasPrefix(filepath.Base(file), "xps_") })
	return list, err
}

// queueFiles returns the files of the queues that a move does not leave as they are.
func (want Settings) queueFiles() map[string]string {
	if want.Driver != nil {
		return want.Driver.Files
	}
	return want.Steering
}

// applyQueueFiles writes the files that are not as they were. An interface that could not
// have its name has its files under another one.
func (c *Conn) applyQueueFiles(index int, want Settings) error {
	files := want.queueFiles()
	if len(files) == 0 {
		return nil
	}
	i, err := c.Get(index)
	if err != nil {
		return err
	}
	q, err := c.openQueues(i)
	if err != nil || q == nil {
		return err
	}
	defer q.Close()
	have, err := q.files(i.Up)
	if err != nil {
		return fmt.Errorf("read the queues of %s: %w", i.Name, err)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		value := files[file]
		if is, there := have[file]; !there || is == value {
			continue
		}
		if e := q.WriteFile(file, []byte(value), 0); e != nil {
			err = hint.Join(err, fmt.Errorf("set %s of %s: %w", file, i.Name, e))
		}
	}
	return err
}

// queueFileDifferences names the files of an interface's queues that are not as they were.
func (c *Conn) queueFileDifferences(index int, now, want Settings) (diff []string, err error) {
	files := want.queueFiles()
	if len(files) == 0 {
		return nil, nil
	}
	have, err := c.queueFiles(Interface{Index: index, Name: now.Name, Up: now.Up})
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
