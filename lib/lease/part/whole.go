package part

import (
	"context"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
)

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
