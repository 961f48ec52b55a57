package link

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// queuesOf is where an interface of the node has the files of its queues. /sys shows the
// namespace in which it was mounted, so that those of a job's interface are not there.
func queuesOf(name string) string { return filepath.Join("/sys/class/net", name) }

// queueFilesLike are what an administrator sets of the queues of an interface
// (net-sysfs.c); what the kernel moves by itself, as a queue's limit, is not among them.
// An interface that is down may have nobody to thread (dev.c:dev_set_threaded).
func queueFilesLike(up bool) []string {
	like := []string{
		"gro_flush_timeout", "napi_defer_hard_irqs",
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

// queueFiles reads the files that the kernel has for an interface of the node.
func queueFiles(name string, up bool) (map[string]string, error) {
	list := map[string]string{}
	dir := os.DirFS(queuesOf(name))
	for _, like := range queueFilesLike(up) {
		files, err := fs.Glob(dir, like)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := fs.ReadFile(dir, file)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) {
				continue // there is nothing to share out among queues (net-sysfs.c:xps_cpus_show)
			}
			if err != nil {
				return nil, fmt.Errorf("read the queues of %s: %w", name, err)
			}
			list[file] = strings.TrimSpace(string(text))
		}
	}
	return list, nil
}

// applyQueueFiles writes the files that are not as they were. An interface that could not
// have its name has its files under another one.
func (c *Conn) applyQueueFiles(index int, want Settings) error {
	if want.Driver == nil {
		return nil
	}
	i, err := c.Get(index)
	if err != nil {
		return err
	}
	have, err := queueFiles(i.Name, i.Up)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(want.Driver.Files)) {
		value := want.Driver.Files[file]
		if is, there := have[file]; !there || is == value {
			continue
		}
		if e := os.WriteFile(filepath.Join(queuesOf(i.Name), file), []byte(value), 0); e != nil {
			err = also(err, fmt.Errorf("set %s of %s: %w", file, i.Name, e))
		}
	}
	return err
}
