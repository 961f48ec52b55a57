package lease

import (
	"os"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// A user keeps udev busy with events of other devices: each FUSE mount is two, of a bdi device.
func TestAnEpilogDoesNotWaitForEventsThatAreNotOfItsDevices(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	const (
		job  = "SLURM_JOB_ID=900044 SLURM_JOB_GPUS=0,1"
		rule = `ACTION=="change", KERNEL=="null", RUN+="/bin/sh -c 'echo $$$$ >/tmp/busy.pid; exec sleep 1000'"`
	)
	vm.Must(t, "prolog", job)
	vm.Run(t, "mkdir -p /run/udev/rules.d; echo "+vm.Quote(rule)+" >/run/udev/rules.d/99-busy.rules; udevadm control --reload; udevadm trigger --action=change /sys/class/mem/null")
	vm.Eventually(t, "udev is busy", func() bool {
		_, err := os.Stat("/tmp/busy.pid")
		return err == nil
	})
	out, code := vm.ByHand(t, "epilog --trace", job)
	_, queue := os.Stat("/run/udev/queue")
	vm.Run(t, "kill $(cat /tmp/busy.pid); rm /run/udev/rules.d/99-busy.rules /tmp/busy.pid; udevadm control --reload; udevadm settle")
	if code != 0 || strings.Contains(out, "udev is busy") {
		t.Errorf("epilog while udev is busy: exit %d: %s", code, out)
	}
	if queue != nil {
		t.Errorf("udev was not busy: %v", queue)
	}
	vm.Same(t, before)
}

// On a busy machine udevd reads an event late, and then it opens the device node to everybody. If an epilog was killed
// meanwhile, the next one was not there for the event.
func TestAnEpilogWaitsForUdevdThatHasNotReadItsEventsYet(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.WithGPUs(t)
	vm.NoDeadline(t)
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900045 SLURM_JOB_GPUS=0,1"
	for _, killed := range []bool{false, true} {
		vm.Must(t, "prolog", job)
		vm.Run(t, "pkill -STOP systemd-udevd")
		end := vm.Begin(t, "epilog", job)
		vm.Eventually(t, "the HCAs are back", func() bool { return len(vm.HCAs(t)) == len(names) })
		if killed {
			vm.Run(t, "pkill -KILL -f '^[^ ]*gresnet-epilog'")
			end()
			end = vm.Begin(t, "epilog", job)
		}
		const hurry = 3 * time.Second // an epilog that does not wait ends far sooner
		ended := make(chan bool)
		var out string
		var code int
		go func() {
			out, code = end()
			close(ended)
		}()
		select {
		case <-ended:
			t.Errorf("killed before: %v: the epilog did not wait: exit %d: %s", killed, code, out)
		case <-time.After(vm.Slow(hurry)):
		}
		vm.Run(t, "pkill -CONT systemd-udevd")
		if <-ended; code != 0 {
			t.Errorf("killed before: %v: exit %d: %s", killed, code, out)
		}
		vm.Run(t, "udevadm settle")
		vm.Same(t, before)
	}
}
