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

// Settle waits until udev has dealt with the events that moving a device home
// made: it renames interfaces and sets the modes of device nodes, and what was
// restored before that may have been changed again. The file is udev's own sign
// that events are waiting (udevadm(8), settle).
func Settle() error {
	for end := time.Now().Add(settleTimeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		_, err := os.Stat("/run/udev/queue")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
