package step

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"gresnet/lib/clock"
)

// settleTimeout bounds the wait for udev, which dozens of epilogs at once keep busy.
// Past it the restore goes on.
const settleTimeout = 30 * time.Second

// WaitUdev waits until udev has dealt with the events that moving a device home
// made: it renames interfaces and sets the modes of device nodes, and what was
// restored before that may have been changed again. The file is udev's own sign
// that events are waiting (udevadm(8), settle). The watch, if there is one, tells those of
// network and RDMA devices from others: users can make any number of those. Half of
// the time that is left is for what comes after it.
func (w *World) WaitUdev() error {
	most := settleTimeout
	if end, bounded := w.Context.Deadline(); bounded {
		most = min(most, time.Until(end)/2)
	}
	for begun := time.Now(); ; clock.Sleep(begun, 2*time.Millisecond) {
		done, err := w.settled()
		if done || err != nil {
			return err
		}
		if waited := time.Since(begun); waited >= most {
			w.Notice("udev is still busy after %s: settings that it changes from now on are not corrected", waited.Round(time.Second))
			return nil
		}
	}
}

func (w *World) settled() (bool, error) {
	if w.Udev != nil {
		return w.Udev.Settled()
	}
	_, err := os.Stat("/run/udev/queue")
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}
