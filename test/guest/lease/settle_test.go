package lease

import (
	"os"
	"strings"
	"testing"

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
