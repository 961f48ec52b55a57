package world

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/udev"
)

// AwaitUdev waits until udev has handled the events of devices that came back: udev renames
// interfaces and sets the modes of device nodes, and may so change again what gresnet has restored.
// A watch counts only events of network and RDMA devices, because users can make any number of
// others. Without one, udev's file /run/udev/queue says that events are waiting (udevadm(8),
// settle). AwaitUdev takes at most half of the time that the run has left.
func (w *World) AwaitUdev(watch *udev.Watch) error {
	begun := time.Now()
	done, err := w.Until(poll.Udev, func() (bool, error) { return isIdle(watch) })
	if !done && err == nil {
		w.Notice("udev is still busy after %s: settings that it changes from now on are not corrected", time.Since(begun).Round(time.Second))
	}
	return err
}

// RenewUdev has udev handle the devices of HCAs that are back once more, so that AwaitUdev waits for the events of
// a run that was killed, too.
func (w *World) RenewUdev(hcas []node.ID) error {
	if w.Udev == nil {
		return nil // AwaitUdev waits for all events there are
	}
	return w.OnHost(func(v *scan.View) error {
		var dirs []string
		for _, id := range hcas {
			d, err := v.Find(id)
			if errors.Is(err, scan.ErrNotFound) {
				continue // it is away
			}
			if err != nil {
				return err
			}
			for _, dir := range v.SysDirs(d) {
				dirs = append(dirs, filepath.Join("/sys", dir))
			}
		}
		return udev.Renew(dirs)
	})
}

func isIdle(watch *udev.Watch) (bool, error) {
	if watch != nil {
		return watch.Idle()
	}
	_, err := os.Stat("/run/udev/queue")
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}
