package world

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"gresnet/lib/base/poll"
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
