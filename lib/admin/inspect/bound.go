package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"gresnet/lib/base/poll"
)

// BoundUnit is a service that systemd stops when an interface leaves the node.
type BoundUnit struct{ Interface, Unit string }

// Bound returns the services that systemd stops when interfaces leave the node: they are bound to the
// devices, as ifupdown's are (allow-hotplug).
func Bound(ctx context.Context, interfaces []string) ([]BoundUnit, error) {
	if _, err := os.Stat("/run/systemd/system"); errors.Is(err, fs.ErrNotExist) || len(interfaces) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, poll.Systemd)
	defer cancel()
	arguments := []string{"show", "--property=Id,BoundBy", "--"}
	for _, name := range interfaces {
		arguments = append(arguments, deviceUnit(name))
	}
	out, err := exec.CommandContext(ctx, "systemctl", arguments...).Output()
	if err != nil {
		return nil, fmt.Errorf("ask systemctl: %w", err)
	}
	return boundBy(string(out), interfaces), nil
}

// boundBy reads what systemctl shows of the units of interfaces: a paragraph for each, with a line for each
// property.
func boundBy(shown string, interfaces []string) (all []BoundUnit) {
	for paragraph := range strings.SplitSeq(shown, "\n\n") {
		has := map[string]string{}
		for line := range strings.Lines(paragraph) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			has[key] = value
		}
		for _, name := range interfaces {
			for by := range strings.FieldsSeq(has["BoundBy"]) {
				if has["Id"] == deviceUnit(name) && strings.HasSuffix(by, ".service") {
					all = append(all, BoundUnit{Interface: name, Unit: by})
				}
			}
		}
	}
	return all
}

// deviceUnit returns systemd's unit of an interface.
func deviceUnit(name string) string {
	return "sys-subsystem-net-devices-" + unit.UnitNameEscape(name) + ".device"
}
