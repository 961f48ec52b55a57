// Package part has what differs between the kinds of parts that jobs get of HCAs: a file for each kind.
// Everything else asks the kind; package node has what tells the kinds apart.
package part

import (
	"context"
	"errors"
	"io/fs"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
)

// Kind is what a kind of parts does in its own way. Whole is what whole HCAs do; other kinds have it in
// them, and do something else where they differ.
type Kind interface {
	// Decide returns an entry with what the site's policies say of its part for a job.
	Decide(c config.Config, j job.Job, e gres.Entry) (gres.Entry, error)
	// Read reads what a job's lease changes of the part besides the interfaces that move, and adds to
	// the HCA the steps for it. An error is why no job can have the part.
	Read(r *Reading) error
	// Problems returns what is wrong with the HCAs that the site gives in such parts, if it gives any.
	Problems(c config.Config, node report.Scan) []error
	// Make makes the parts of an HCA when the node boots.
	Make(ctx context.Context, m *Making) error
}

// kinds has the kinds by name.
var kinds = map[string]Kind{
	"": Whole{}, "vf": vf{}, "macvlan": slot{}, "ipvlan": slot{}, "pkey": partition{}, "shared": shared{},
}

// Whole is an HCA that one job has, all of it. Its interfaces move, and there is nothing besides.
type Whole struct{}

// Decide returns the entry as it is.
func (Whole) Decide(_ config.Config, _ job.Job, e gres.Entry) (gres.Entry, error) { return e, nil }

// Read reads nothing.
func (Whole) Read(*Reading) error { return nil }

// Problems returns none.
func (Whole) Problems(config.Config, report.Scan) []error { return nil }

// Make makes nothing.
func (Whole) Make(context.Context, *Making) error { return nil }

// Of returns what a kind does.
func Of(k node.PartKind) Kind { return kinds[k.Name] }

// Add adds a kind, and returns a function that removes it. A test does so.
func Add(k node.PartKind, does Kind) (remove func()) {
	forget := node.AddKind(k)
	kinds[k.Name] = does
	return func() { forget(); delete(kinds, k.Name) }
}

// Reading is a look at an HCA for a job.
type Reading struct {
	World  *world.World
	View   *scan.View
	Mode   rdma.Mode
	Entry  gres.Entry
	Device scan.Device
	Stays  bool // the job stays in the node's network: it gets no interface

	HCA *step.HCA // with its device nodes and ports, and without its interfaces
}

// Making names an HCA whose parts gresnet has to make, because the site gives it to jobs in parts.
type Making struct {
	Sys    fs.FS
	Want   config.HCA
	Taken  map[int]bool // parts that leases have: they stay as they are
	Notice func(format string, args ...any)
}

// Problems returns what is wrong with the HCAs that the site gives in parts.
func Problems(c config.Config, node report.Scan) (all []error) {
	asked := map[string]bool{}
	for _, h := range c.HCAs {
		if !asked[h.Part] {
			all = append(all, Of(h.Kind()).Problems(c, node)...)
		}
		asked[h.Part] = true
	}
	return all
}

// meant is what may be meant so.
type meant struct{ error }

func (m meant) Unwrap() error { return m.error }

// MayBeMeant tells what a site may want so.
func MayBeMeant(err error) bool {
	var m meant
	return errors.As(err, &m)
}

// refuse makes what the node cannot do of a key of the configuration a refusal of the job. Users choose
// by which account and with which type of NIC they ask, so this must not drain the node.
func refuse(key string, err error) error {
	return &gres.Refusal{Ask: key + " of the site's configuration", Why: err.Error(), Do: hint.Whole(err)}
}
