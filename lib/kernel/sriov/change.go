package sriov

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/sysfs"
)

// changer makes VFs and binds their drivers aside: the write waits for a driver that waits for its
// firmware, deaf to signals.
var changer = detach.New("gresnet-vf", func(args []string, say detach.Say) error {
	err := change(args)
	if errors.Is(err, ErrNoDriver) {
		err = ErrNoDriver
	}
	if err != nil {
		return say(err.Error(), -1)
	}
	return nil
})

// ErrNoDriver means that a VF was offered to the drivers, and none has taken it.
var ErrNoDriver = errors.New("no driver takes it")

// The changer's actions.
const (
	create = "create" // PF COUNT
	rebind = "rebind" // VF DURATION, that its driver may take to come
)

// Bus is the folder of sysfs that has the PCI devices.
type Bus string

// PCI is the node's.
const PCI Bus = "/sys/bus/pci"

// Create makes a PF that has no VFs have some.
func (b Bus) Create(pf string, count int, until time.Time) error {
	if err := b.aside(until, create, pf, strconv.Itoa(count)); err != nil {
		return hint.With(fmt.Errorf("make %d VFs of %s: %w", count, pf, err), "GN332 see the driver's messages: journalctl -k")
	}
	return nil
}

// Rebind has the driver of a VF let go of it and take it again. One without a driver gets one.
func (b Bus) Rebind(vf string, until time.Time) error {
	patience := min(poll.Driver.Most, time.Until(until)/2)
	if err := b.aside(until, rebind, vf, patience.String()); err != nil {
		if errors.Is(err, ErrNoDriver) && b.leavesVFs(vf) {
			err = fmt.Errorf("bind VF %s again: %w: sriov_drivers_autoprobe of its PF is 0", vf, err)
			return hint.With(err, `GN453 write 1 to it, below /sys/bus/pci/devices, and see what writes 0 when the node starts; or leave part = "vf" out of [[hca]]`)
		}
		return hint.With(fmt.Errorf("bind VF %s again: %w", vf, err), "GN333 see the driver's messages: journalctl -k")
	}
	return nil
}

// leavesVFs tells whether an administrator has said that no driver binds the VFs of a VF's PF
// (pci-driver.c:pci_device_can_probe).
func (b Bus) leavesVFs(vf string) bool {
	text, err := os.ReadFile(filepath.Join(string(b), "devices", vf, "physfn", "sriov_drivers_autoprobe"))
	return err == nil && strings.TrimSpace(string(text)) == "0"
}

func (b Bus) aside(until time.Time, args ...string) error {
	process, err := changer.Start(nil, append([]string{string(b)}, args...)...)
	if err != nil {
		return err
	}
	_, err = process.Listen(until, 0, func(fault string, _ int) error {
		if fault == ErrNoDriver.Error() {
			return ErrNoDriver
		}
		return errors.New(fault)
	})
	if errors.Is(err, detach.ErrHeldUp) {
		return fmt.Errorf("its driver does not end it: %w", err)
	}
	return err
}

func change(args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("%q is no change", args)
	}
	bus, device := args[0], filepath.Join(args[0], "devices", args[2])
	switch args[1] {
	case create:
		return write(filepath.Join(device, "sriov_numvfs"), args[3])
	case rebind:
		patience, err := time.ParseDuration(args[3])
		if err != nil {
			return err
		}
		return bindAgain(bus, args[2], filepath.Join(device, "driver"), patience)
	}
	return fmt.Errorf("%q is no change", args)
}

func bindAgain(bus, vf, driver string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b := poll.Budget{Context: ctx}
	// A driver that is being loaded binds what is there before it can let go of it (bus.c:bus_add_driver).
	err := b.Try(poll.Driver, fs.ErrNotExist, func() error {
		err := write(filepath.Join(driver, "unbind"), vf)
		if _, none := os.Stat(driver); errors.Is(none, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("its driver does not let go of it: %w", err)
	}
	return b.Try(poll.Driver, fs.ErrNotExist, func() error {
		if err := write(filepath.Join(bus, "drivers_probe"), vf); err != nil {
			return err
		}
		if _, err := os.Stat(driver); err != nil {
			return fmt.Errorf("%w: %w", ErrNoDriver, err)
		}
		return nil
	})
}

// write writes to a file that is there.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return hint.Join(err, f.Close())
}

// Missing names what a VF does not have yet of what its drivers make, an RDMA device and an interface;
// it is empty if the VF has both. They must be in the namespace whose /sys this is.
func Missing(sys fs.FS, pf string, vf int) (string, error) {
	function, err := sysfs.VF(sys, pf, strconv.Itoa(vf))
	if err != nil {
		return "", err
	}
	for _, made := range []struct{ class, what string }{{"infiniband", "the RDMA device"}, {"net", "the interface"}} {
		entries, err := fs.ReadDir(sys, path.Join("bus/pci/devices", function, made.class))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if len(entries) == 0 {
			return fmt.Sprintf("%s of VF %d (%s)", made.what, vf, function), nil
		}
	}
	return "", nil
}
