package node

import "cmp"

// Location is where a device sits in the node.
type Location struct {
	PCI  string   `json:"pci"`
	Path []string `json:"-"`    // what is above it, from the root complex down: pci0000:3a, 0000:3a:00.0, …
	NUMA int      `json:"numa"` // -1: the firmware does not say

	Far map[int]int `json:"-"` // the distance from its NUMA node to each, as the firmware (SLIT) counts; nil: not known
}

// Distance is how far two devices are apart: less is nearer.
type Distance struct {
	Level  Level
	Shared int // how many bridges lead to both
	Far    int // between their NUMA nodes, where these differ
}

// Level is the nearest that two devices have in common.
type Level int

// What two devices may have in common, nearest first.
const (
	SameSwitch Level = iota // a PCIe switch, or a root port with one
	SameRoot                // a root complex
	SameNUMA                // a NUMA node
	SameSystem              // no more than the machine
)

// String returns a word for it.
func (l Level) String() string { return [...]string{"switch", "root", "numa", "system"}[l] }

// Compare orders distances, nearest first: two devices behind a switch of a
// switch are nearer than those that meet further up, and two NUMA nodes of one
// socket are nearer than those of two.
func (d Distance) Compare(o Distance) int {
	return cmp.Or(int(d.Level-o.Level), o.Shared-d.Shared, d.Far-o.Far)
}

// To returns the distance to another seat.
func (s Location) To(o Location) Distance {
	shared := 0
	for shared < min(len(s.Path), len(o.Path)) && s.Path[shared] == o.Path[shared] {
		shared++
	}
	switch {
	case shared > 1:
		return Distance{Level: SameSwitch, Shared: shared}
	case shared == 1:
		return Distance{Level: SameRoot, Shared: shared}
	case s.NUMA >= 0 && s.NUMA == o.NUMA:
		return Distance{Level: SameNUMA}
	}
	far, known := s.Far[o.NUMA]
	if !known {
		far = unknownFar
	}
	return Distance{Level: SameSystem, Far: far}
}

// unknownFar is more than any distance of NUMA nodes (ACPI, SLIT: 254 at most).
const unknownFar = 255

// Nearest returns the distance to the nearest of several seats.
func (s Location) Nearest(seats []Location) Distance {
	nearest := Distance{Level: SameSystem, Far: unknownFar}
	for _, o := range seats {
		if d := s.To(o); d.Compare(nearest) < 0 {
			nearest = d
		}
	}
	return nearest
}
