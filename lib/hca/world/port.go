package world

import (
	"fmt"
	"strconv"
	"strings"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/scan"
)

// DifferencesError names the settings of an interface on the node that are not as they were.
type DifferencesError struct {
	Interface string
	What      []string
}

func (e DifferencesError) Error() string {
	return fmt.Sprintf("restore %s: %s", e.Interface, strings.Join(e.What, ", "))
}

// CarrierError says which interface has no link in the job.
type CarrierError struct {
	Interface string
	HCA       string
	Port      uint32
}

func (e CarrierError) Error() string {
	return fmt.Sprintf("%s (port %d of %s) has no carrier in the job, it had one on the node: see its cable and its switch port", e.Interface, e.Port, e.HCA)
}

// PortError says how a port that came back is worse than before.
type PortError struct {
	HCA       string
	Port      uint32
	Interface string // that has no carrier any more; empty if it has, or if none is known
	What      string // PortState or PortRate
	Before    string
	Now       string
}

// PortState and PortRate say in what a port is worse; PortFaults stands for a FaultsError.
const (
	PortState  = "state"
	PortRate   = "rate"
	PortFaults = "faults"
)

func (e PortError) Error() string {
	text := fmt.Sprintf("port %d of %s", e.Port, e.HCA)
	if e.Interface != "" {
		text += fmt.Sprintf(" (%s)", e.Interface)
	}
	return fmt.Sprintf("%s came back with %s %s, it had %s", text, e.What, e.Now, e.Before)
}

// Hint says what to do about it.
func (e PortError) Hint() string { return PortHint }

// PortHint is what to do about a PortError.
const PortHint = "GN004 see whether cable, switch and subnet manager are in order; a link that comes up late needs no more than that"

// FaultsError says that a counter of a port grew by more than the site allows while a job had the HCA.
type FaultsError struct {
	HCA  string
	Port uint32
	counters.Over
}

func (e FaultsError) Error() string {
	return fmt.Sprintf("port %d of %s counted %d more of %s for the job, [health] allows %d", e.Port, e.HCA, e.By, e.Counter, e.Allowed)
}

// Hint says what to do about it.
func (e FaultsError) Hint() string {
	return "GN641 look at cable and switch; gresnet release ends a quarantine"
}

// AwaitPorts waits until no port of an HCA on the node is worse than before, and returns a PortError
// for one that stays worse.
func (w *World) AwaitPorts(id node.ID, name string, before []scan.Signal) (worse, err error) {
	err = w.OnHost(func(v *scan.View) error {
		d, err := v.Find(id)
		if err != nil {
			return err
		}
		var waitedFor, waits bool
		_, err = w.Until(poll.Ports, func() (bool, error) {
			now, err := v.Signals(d)
			if err != nil {
				return false, err
			}
			fault, is := worsePort(name, before, now)
			if !is {
				worse = nil
				return true, nil
			}
			fault.Interface, waitedFor = w.dark[port{id, fault.Port}]
			worse = fault
			waits = waits || !waitedFor
			return waitedFor, nil
		})
		if waits {
			v.Link.LookAgain()
		}
		return err
	})
	return worse, err
}

// worsePort returns the first port of an HCA that had a link before and has none now, or a slower
// one.
func worsePort(name string, before, now []scan.Signal) (fault PortError, is bool) {
	for _, b := range before {
		n := scan.Signal{Num: b.Num, State: "none"}
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

// port is a port of an HCA.
type port struct {
	hca node.ID
	num uint32
}

// NoCarrier records that the interface of a port did not get a carrier in time: no later step waits for
// the port again.
func (w *World) NoCarrier(id node.ID, num uint32, name string) {
	if w.dark == nil {
		w.dark = map[port]string{}
	}
	w.dark[port{id, num}] = name
}

// active is the state of a port that has a link.
const active = "ACTIVE"

// rate returns the number with which the text of a rate begins.
func rate(text string) float64 {
	number, _, _ := strings.Cut(text, " ")
	gigabits, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return gigabits
}
