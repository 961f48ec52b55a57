package node

// Location is where a device sits in the node.
type Location struct {
	PCI  string   `json:"pci"`
	Path []string `json:"-"`    // what is above it, from the root complex down: pci0000:3a, 0000:3a:00.0, …
	NUMA int      `json:"numa"` // -1: the firmware does not say
}

// Distance is how far two devices are apart: less is nearer.
type Distance struct {
	Level  Level
	Shared int // how many bridges lead to both
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

// String is a word for it.
func (l Level) String() string { return [...]string{"switch", "root", "numa", "system"}[l] }

// Compare orders distances, nearest first: two devices behind a switch of a
// switch are nearer than those that meet further up.
func (d Distance) Compare(o Distance) int {
	if d.Level != o.Level {
		return int(d.Level - o.Level)
	}
	return o.Shared - d.Shared
}

// To is the distance to another seat.
func (s Location) To(o Location) Distance {
	shared := 0
	for shared < min(len(s.Path), len(o.Path)) && s.Path[shared] == o.Path[shared] {
		shared++
	}
	switch {
	case shared > 1:
		return Distance{SameSwitch, shared}
	case shared == 1:
		return Distance{SameRoot, shared}
	case s.NUMA >= 0 && s.NUMA == o.NUMA:
		return Distance{Level: SameNUMA}
	}
	return Distance{Level: SameSystem}
}

// Nearest is the distance to the nearest of several seats.
func (s Location) Nearest(seats []Location) Distance {
	nearest := Distance{Level: SameSystem}
	for _, o := range seats {
		if d := s.To(o); d.Compare(nearest) < 0 {
			nearest = d
		}
	}
	return nearest
}
