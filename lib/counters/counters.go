// Package counters reads what the ports of RDMA devices have sent and received.
//
// The hardware or the driver counts, and a move of the device changes nothing of that. sysfs
// shows the counters only where the device is. To read one, the kernel asks the firmware, which
// may not answer: a process that can be left behind reads them all (lib/aside).
package counters

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/aside"
	"gresnet/lib/sysfs"
)

// Port is what a port has counted since its driver was loaded.
type Port struct {
	Num      uint32            `json:"num"`
	Data     map[string]uint64 `json:"data,omitempty"`     // what it carried
	Hardware map[string]uint64 `json:"hardware,omitempty"` // what else its driver counts
}

// The counters of what a port carries, as the kernel names them. The hardware has them in 64
// bits; of bytes it counts groups of four (sysfs.c:pma_attr_ext).
const (
	sentWords       = "port_xmit_data"
	receivedWords   = "port_rcv_data"
	sentPackets     = "port_xmit_packets"
	receivedPackets = "port_rcv_packets"
)

var volume = []string{sentWords, receivedWords, sentPackets, receivedPackets}

// Traffic is what a port carried between two readings.
type Traffic struct {
	Port     uint32            `json:"port"`
	*Volume                    // nil: the driver does not say, or the counters were reset meanwhile
	Hardware map[string]uint64 `json:"hw_counters,omitempty"` // those of the driver that grew
}

// Volume is how much a port carried.
type Volume struct {
	SentBytes       uint64 `json:"sent_bytes"`
	ReceivedBytes   uint64 `json:"received_bytes"`
	SentPackets     uint64 `json:"sent_packets"`
	ReceivedPackets uint64 `json:"received_packets"`
}

// Between is what ports carried between two readings. It leaves out what cannot be told: a
// counter that was reset or wrapped has less than before, and one that is full has stopped.
func Between(before, after []Port) (all []Traffic) {
	for _, b := range before {
		i := slices.IndexFunc(after, func(p Port) bool { return p.Num == b.Num })
		if i < 0 {
			continue
		}
		t := Traffic{Port: b.Num, Hardware: map[string]uint64{}}
		for name, was := range b.Hardware {
			if grown, ok := growth(was, after[i].Hardware, name); ok && grown > 0 {
				t.Hardware[name] = grown
			}
		}
		t.Volume = carried(b.Data, after[i].Data)
		if t.Volume != nil || len(t.Hardware) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// carried is nil if one of the counters cannot be told: they are reset together.
func carried(before, after map[string]uint64) *Volume {
	grown := map[string]uint64{}
	for _, name := range volume {
		was, known := before[name]
		by, ok := growth(was, after, name)
		if !known || !ok {
			return nil
		}
		grown[name] = by
	}
	return &Volume{4 * grown[sentWords], 4 * grown[receivedWords], grown[sentPackets], grown[receivedPackets]}
}

func growth(was uint64, after map[string]uint64, name string) (by uint64, ok bool) {
	is, known := after[name]
	full := is == math.MaxUint32 || is == math.MaxUint64
	return is - was, known && is >= was && !full
}

// Reading is a reading of counters that has begun.
type Reading struct {
	process *aside.Process // nil: nothing to read
	devices int
}

// said is what the process says: a port of the device whose folder has that place.
type said struct {
	Device int  `json:"device"`
	Port   Port `json:"port"`
}

var reader = aside.New("gresnet-count", func(args []string, say aside.Say) error {
	for i, folder := range args {
		for _, p := range read(folder) {
			text, err := json.Marshal(said{i, p})
			if err != nil {
				return err
			}
			if err := say(string(text), -1); err != nil {
				return err
			}
		}
	}
	return nil
})

// Begin begins to read the counters of RDMA devices, each by its folder in a sysfs that shows
// where it is: /sys/class/infiniband/mlx5_0.
func Begin(folders []string) (Reading, error) {
	if len(folders) == 0 {
		return Reading{}, nil
	}
	p, err := reader.Start(folders...)
	if err != nil {
		return Reading{}, fmt.Errorf("read counters of HCAs: %w", err)
	}
	return Reading{p, len(folders)}, nil
}

// End returns what was read until then, in the order of the folders. After an error some is
// missing.
func (r Reading) End(until time.Time) ([][]Port, error) {
	all := make([][]Port, r.devices)
	if r.process == nil {
		return all, nil
	}
	defer r.process.Leave()
	for {
		text, _, err := r.process.Hear(until)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("read counters of HCAs: %w", err)
		}
		var s said
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Device < 0 || s.Device >= len(all) {
			continue // cut off: a driver that has hundreds of counters
		}
		all[s.Device] = append(all[s.Device], s.Port)
	}
}

// read reads a device's ports. What cannot be read is left out.
func read(folder string) (ports []Port) {
	entries, err := os.ReadDir(filepath.Join(folder, "ports"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		num, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		dir := filepath.Join(folder, "ports", e.Name())
		p := Port{uint32(num), values(filepath.Join(dir, "counters"), volume), nil}
		if names, err := os.ReadDir(filepath.Join(dir, "hw_counters")); err == nil {
			p.Hardware = values(filepath.Join(dir, "hw_counters"), namesOf(names))
		}
		if len(p.Data)+len(p.Hardware) > 0 {
			ports = append(ports, p)
		}
	}
	return ports
}

// namesOf are the counters of a folder; lifespan says how old they may be.
func namesOf(entries []os.DirEntry) (names []string) {
	for _, e := range entries {
		if e.Name() != "lifespan" {
			names = append(names, e.Name())
		}
	}
	return names
}

func values(dir string, names []string) map[string]uint64 {
	files, all := sysfs.At(dir), map[string]uint64{}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			continue
		}
		if v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			all[name] = v
		}
	}
	return all
}
