package step

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/snapshot"
	"gresnet/lib/table"
	"gresnet/lib/world"
)

// due returns the settings that the interface can have by now. It defers those that it shares with
// an interface that another lease has, even if that one is on the node at the moment: it is about
// to leave then, or has not got its own settings back.
func (s *Settings) due(w *world.World, v *scan.View) (*Settings, error) {
	delete(w.Deferred, s.Interface)
	if w.Leased == nil || len(s.Settings.Others) == 0 {
		return s, nil
	}
	hcas := map[link.ID]node.ID{s.Interface: s.Of}
	var away []snapshot.Other
	for _, o := range s.Settings.Others {
		if hca, leased := w.Leased(o.ID); leased {
			hcas[o.ID], away = hca, append(away, o)
		}
	}
	if len(away) == 0 {
		return s, nil
	}
	due := *s
	var shared snapshot.Shared
	if due.Settings, shared = s.Settings.Without(away); len(shared.Others) == 0 {
		return s, nil
	}
	shared.ID = s.Interface
	owed := table.Deferred{Job: w.Job, Run: w.Run, Shared: shared, Of: []table.Member{{Interface: s.Interface, Name: s.Settings.Name, HCA: s.Of}}}
	for _, o := range shared.Others {
		if _, known := hcas[o.ID]; !known {
			hca, err := hcaOf(v, o.ID)
			if err != nil {
				return nil, fmt.Errorf("see whose %s is: %w", o.Name, err)
			}
			hcas[o.ID] = hca
		}
		owed.Of = append(owed.Of, table.Member{Interface: o.ID, Name: o.Name, HCA: hcas[o.ID]})
	}
	if w.Deferred == nil {
		w.Deferred = map[link.ID]table.Deferred{}
	}
	w.Deferred[s.Interface] = owed
	return &due, nil
}

// hcaOf returns the HCA that has an interface of the node, the zero ID if none has.
func hcaOf(v *scan.View, id link.ID) (node.ID, error) {
	devices, err := v.Devices()
	if errors.Is(err, rdma.ErrNoRDMA) {
		return node.ID{}, nil
	}
	if err != nil {
		return node.ID{}, err
	}
	for _, d := range devices {
		ports, err := v.Ports(d)
		if errors.Is(err, scan.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			continue // it is on its way
		}
		if err != nil {
			return node.ID{}, err
		}
		if slices.ContainsFunc(ports, func(p scan.Port) bool { return p.Interface != nil && p.Interface.ID == id }) {
			return d.ID, nil
		}
	}
	return node.ID{}, nil
}

// RestoreDeferred restores deferred settings if all members are on the node; otherwise done is
// false. ErrGone says that the node has lost a member, which the error names.
func RestoreDeferred(w *world.World, o table.Deferred) (done bool, err error) {
	err = w.OnHost(func(v *scan.View) error {
		for _, p := range o.Of {
			_, err := v.Interface(p.Interface)
			if errors.Is(err, link.ErrNotFound) {
				return missed(w, p)
			}
			if err != nil {
				return err
			}
		}
		done = true
		return v.Link.RestoreShared(o.Shared)
	})
	return done && err == nil, err
}

// missed returns an error if a member will never come back.
func missed(w *world.World, p table.Member) error {
	if p.HCA == (node.ID{}) {
		return nil // nobody can tell
	}
	if err := w.AwaitLost(p.HCA); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}
