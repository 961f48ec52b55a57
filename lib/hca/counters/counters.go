// Package counters reads what the ports of RDMA devices have sent and received.
//
// The hardware or the driver counts, and a move of the device changes nothing of that. sysfs
// shows the counters only where the device is. To read one, the kernel asks the firmware, which
// may not answer: a process that can be left behind reads them all (lib/kernel/detach).
package counters

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/detach"
)

// Port is what a port has counted since its driver was loaded.
type Port struct {
	Num      uint32            `json:"num"`
	Data     map[string]uint64 `json:"data,omitempty"`     // what it carried
	Hardware map[string]uint64 `json:"hardware,omitempty"` // what else its driver counts
	Faults   map[string]uint64 `json:"faults,omitempty"`   // what the site has limits for besides
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
	Faults   map[string]uint64 `json:"-"`                     // those of Port.Faults that grew
}

// Over is a counter that grew by more than it may.
type Over struct {
	Counter     string
	By, Allowed uint64
}

// Over returns the counters that grew by more than some limits allow, sorted by name.
func (t Traffic) Over(limits map[string]uint64) (all []Over) {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if by := max(t.Faults[name], t.Hardware[name]); by > limits[name] {
			all = append(all, Over{name, by, limits[name]})
		}
	}
	return all
}

// Volume is how much a port carried.
type Volume struct {
	SentBytes       uint64 `json:"sent_bytes"`
	ReceivedBytes   uint64 `json:"received_bytes"`
	SentPackets     uint64 `json:"sent_packets"`
	ReceivedPackets uint64 `json:"received_packets"`
}

// Between returns what ports carried between two readings. It leaves out what cannot be told: a
// counter that was reset or wrapped has less than before, and one that is full has stopped.
func Between(before, after []Port) (all []Traffic) {
	for _, b := range before {
		i := slices.IndexFunc(after, func(p Port) bool { return p.Num == b.Num })
		if i < 0 {
			continue
		}
		t := Traffic{Port: b.Num, Hardware: grown(b.Hardware, after[i].Hardware), Faults: grown(b.Faults, after[i].Faults)}
		t.Volume = carried(b.Data, after[i].Data)
		if t.Volume != nil || len(t.Hardware)+len(t.Faults) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// grown returns the counters that grew, and by how much.
func grown(before, after map[string]uint64) (all map[string]uint64) {
	for name, was := range before {
		by, ok := growth(was, after, name)
		switch {
		case !ok || by == 0:
		case all == nil:
			all = map[string]uint64{name: by}
		default:
			all[name] = by
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
	process  *detach.Fork // nil: nothing to read
	counters []counter
	devices  int
}

// counter is a counter that is read: a file.
type counter struct {
	device   int
	port     uint32
	hardware bool
	name     string
}

// Begin begins to read the counters of RDMA devices, each by its folder in a sysfs that shows
// where it is: /sys/class/infiniband/mlx5_0. It reads those of some faults, too, where a port has them.
func Begin(folders, faults []string) (Reading, error) { return BeginWith(nil, folders, faults) }

// BeginWith has the process that reads keep a file open, such as a lock, until it ends; nil: none.
func BeginWith(file *os.File, folders, faults []string) (Reading, error) {
	r := Reading{devices: len(folders)}
	work := reader{answer: new([answerSize]byte)}
	if file != nil {
		work.keep = []uintptr{file.Fd()}
	}
	for i, folder := range folders {
		for _, c := range list(folder, faults) {
			path, err := unix.BytePtrFromString(filepath.Join(folder, c.path()))
			if err != nil {
				continue
			}
			c.device = i
			r.counters, work.paths = append(r.counters, c), append(work.paths, path)
		}
	}
	if len(work.paths) == 0 {
		return r, nil
	}
	p, err := detach.StartFork("gresnet-count", &work)
	if err != nil {
		return r, fmt.Errorf("read counters of HCAs: %w", err)
	}
	r.process = p
	return r, nil
}

// End returns what was read until then, in the order of the folders. After an error some ports are
// missing.
func (r Reading) End(until time.Time) ([][]Port, error) {
	all := make([][]Port, r.devices)
	if r.process == nil {
		return all, nil
	}
	defer r.process.Leave()
	err := r.process.Output.SetReadDeadline(until)
	answers, answered := bufio.NewReaderSize(r.process.Output, 64*answerSize), 0
	for err == nil {
		var a [answerSize]byte
		if _, err = io.ReadFull(answers, a[:]); err == nil {
			r.add(all, &a)
			answered++
		}
	}
	if answered == len(r.counters) {
		return all, nil
	}
	r.dropPart(all, answered)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = detach.ErrHeldUp
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the process that reads them was ended")
	}
	return all, fmt.Errorf("read counters of HCAs: %w", err)
}

// add adds what a file has. What is no number is left out, as is what cannot be read.
func (r Reading) add(all [][]Port, a *[answerSize]byte) {
	place, text := decode(a)
	value, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || place >= len(r.counters) {
		return
	}
	c := r.counters[place]
	ports := &all[c.device]
	if n := len(*ports); n == 0 || (*ports)[n-1].Num != c.port {
		*ports = append(*ports, Port{Num: c.port})
	}
	p := &(*ports)[len(*ports)-1]
	values := &p.Faults
	switch {
	case c.hardware:
		values = &p.Hardware
	case slices.Contains(volume, c.name):
		values = &p.Data
	}
	if *values == nil {
		*values = map[string]uint64{}
	}
	(*values)[c.name] = value
}

// dropPart drops a port if some of its counters were read and others were not.
func (r Reading) dropPart(all [][]Port, answered int) {
	missing := r.counters[answered]
	all[missing.device] = slices.DeleteFunc(all[missing.device], func(p Port) bool { return p.Num == missing.port })
}

// list lists a device's counters. The names come from the kernel's memory: no driver is asked.
func list(folder string, faults []string) (all []counter) {
	entries, err := os.ReadDir(filepath.Join(folder, "ports"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		num, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		for _, name := range slices.Concat(volume, faults) {
			all = append(all, counter{port: uint32(num), name: name})
		}
		names, err := os.ReadDir(filepath.Join(folder, "ports", e.Name(), "hw_counters"))
		if err != nil {
			continue
		}
		for _, n := range names {
			if n.Name() != "lifespan" { // how old the others may be
				all = append(all, counter{port: uint32(num), name: n.Name(), hardware: true})
			}
		}
	}
	return all
}

// path returns where a counter is in its device's folder.
func (c counter) path() string {
	kind := "counters"
	if c.hardware {
		kind = "hw_counters"
	}
	return filepath.Join("ports", strconv.FormatUint(uint64(c.port), 10), kind, c.name)
}
