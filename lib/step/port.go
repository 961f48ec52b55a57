package step

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/hint"
	"gresnet/lib/node"
	"gresnet/lib/scan"
)

// Port is what a port of an HCA was when it was claimed.
type Port struct {
	Num   uint32 `json:"num"`
	State string `json:"state"`          // ACTIVE, DOWN, …
	Rate  string `json:"rate,omitempty"` // as the kernel prints it: "100 Gb/sec (4X EDR)"
}

// PortError says in what a port that came home is worse than it was.
type PortError struct {
	HCA       string
	Port      uint32
	Interface string // that has no carrier any more; empty if it has, or if none is known
	What      string // PortState or PortRate
	Before    string
	Now       string
}

// What may be worse of a port.
const (
	PortState = "state"
	PortRate  = "rate"
)

func (e PortError) Error() string {
	port := fmt.Sprintf("port %d of %s", e.Port, e.HCA)
	if e.Interface != "" {
		port += fmt.Sprintf(" (%s)", e.Interface)
	}
	return fmt.Sprintf("%s came home with %s %s, it had %s", port, e.What, e.Now, e.Before)
}

// Hint says what to do about it.
func (e PortError) Hint() string {
	return "see whether cable, switch and subnet manager are in order; a link that comes up late needs no more than that"
}

// portTimeout bounds what one run waits for ports, however many there are: the
// drivers of Ethernet ports take the link down with the interface, which a move
// closes, and the two ends then take seconds to agree again.
const portTimeout = 20 * time.Second

// ReadPorts reads what an HCA's ports are.
func ReadPorts(v *scan.View, d scan.Device) ([]Port, error) {
	list, err := v.Signals(d)
	if err != nil {
		return nil, err
	}
	ports := make([]Port, 0, len(list))
	for _, p := range list {
		ports = append(ports, Port(p))
	}
	return ports, nil
}

// checkPorts waits until no port is worse than it was when it was claimed.
func (s *Access) checkPorts(w *World) error {
	var worse error
	err := w.OnHost(func(v *scan.View) error {
		d, err := v.Find(s.ID)
		if err != nil {
			return err
		}
		for ; ; time.Sleep(20 * time.Millisecond) {
			now, err := ReadPorts(v, d)
			if err != nil {
				return err
			}
			fault, is := worsePort(s.Name, s.Ports, now)
			if !is {
				worse = nil
				return nil
			}
			var waited bool
			fault.Interface, waited = w.lost[portOf{s.ID, fault.Port}]
			worse = fault
			if waited || w.Context.Err() != nil || time.Now().After(w.portsDeadline()) {
				return nil
			}
		}
	})
	if worse != nil && s.Health != HealthQuarantine {
		w.Warn(s.ID, worse)
		return err
	}
	return hint.Join(worse, err)
}

// portsDeadline is until when this run waits for ports.
func (w *World) portsDeadline() time.Time {
	if w.portsUntil.IsZero() {
		w.portsUntil = time.Now().Add(portTimeout)
	}
	return w.portsUntil
}

// worsePort compares an HCA's ports with what they were: the first that had a
// link and has none, or has a slower one.
func worsePort(name string, before, now []Port) (fault PortError, is bool) {
	for _, b := range before {
		n := Port{Num: b.Num, State: "none"}
		for _, p := range now {
			if p.Num == b.Num {
				n = p
			}
		}
		if b.State == active && n.State != active {
			return PortError{HCA: name, Port: b.Num, What: PortState, Before: b.State, Now: n.State}, true
		}
		if b.State == active && n.Rate != "" && rate(n.Rate) < rate(b.Rate) {
			return PortError{HCA: name, Port: b.Num, What: PortRate, Before: b.Rate, Now: n.Rate}, true
		}
	}
	return PortError{}, false
}

// portOf is a port of an HCA.
type portOf struct {
	hca node.ID
	num uint32
}

// dark takes down the interface of a port that was waited for in vain: nobody waits for
// the port again.
func (w *World) dark(s *Settings) {
	if !w.Waits.Late(s.Interface) {
		return
	}
	if w.lost == nil {
		w.lost = map[portOf]string{}
	}
	w.lost[portOf{s.Of, s.Port}] = s.Settings.Name
}

// active is the state of a port that has a link.
const active = "ACTIVE"

// rate is a rate's number, which comes first.
func rate(text string) float64 {
	number, _, _ := strings.Cut(text, " ")
	gigabits, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return gigabits
}
