package step

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// settleTimeout bounds the wait for udev. Past it the restore goes on, and its
// comparison at the end says what udev changed later.
const settleTimeout = 5 * time.Second

// Between two looks is an eighth of what was waited so far, within these: dozens of
// epilogs that look all the time take the processor from udev.
const (
	settleLeast = 2 * time.Millisecond
	settleMost  = 50 * time.Millisecond
)

// Settle waits until udev has dealt with the events that moving a device home
// made: it renames interfaces and sets the modes of device nodes, and what was
// restored before that may have been changed again. The file is udev's own sign
// that events are waiting (udevadm(8), settle).
func Settle() error {
	for begun := time.Now(); ; {
		_, err := os.Stat("/run/udev/queue")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		waited := time.Since(begun)
		if waited >= settleTimeout {
			return nil
		}
		time.Sleep(min(max(waited/8, settleLeast), settleMost))
	}
}
