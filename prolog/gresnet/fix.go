package main

import (
	"cmp"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/check"
	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/setup"
	"gresnet/lib/base/hint"
	"gresnet/lib/lease"
)

// fix corrects what it need not guess about: setup's files, with setup's copies and undo, and device
// nodes that are open. With dry it only shows that.
func fix(w *cli.World, c *urfave.Context, s check.Site, dry bool) error {
	if s.ConfigErr != nil || s.InventoryErr != nil {
		fmt.Fprintf(w.Stdout, "nothing is fixed before there is a configuration, and a node to read\n\n")
		return nil
	}
	node := setupNode(w, c, s.Config)
	var plan setup.Plan
	site, err := siteOf(w, c, s.Config)
	if err != nil {
		plan.Refusals = append(plan.Refusals, setup.Refusal{Text: err.Error(), Do: cmp.Or(hint.Of(err), "GN321 correct that, then run it again")})
	} else {
		site.Network = node.Shared
		plan = setup.Fix(site, node.Check)
	}
	open := check.Open(s.Run())
	for _, r := range plan.Refusals {
		fmt.Fprintf(w.Stdout, "not fixed: %s; %s\n", r.Text, r.Do)
	}
	plan.Print(w.Stdout)
	if open {
		fmt.Fprintln(w.Stdout, "device nodes: restricted to root")
	}
	switch {
	case !plan.Changes() && !open:
		fmt.Fprint(w.Stdout, "nothing to fix\n\n")
		return nil
	case dry:
		fmt.Fprint(w.Stdout, "\nnothing was changed: this is a dry run\n\n")
		return nil
	}
	if plan.Changes() {
		if err := node.Do(plan); err != nil {
			return hint.With(fmt.Errorf("fix: %w", err), cmp.Or(hint.Of(err), "GN322 fix the cause, then run it again, or setup --undo"))
		}
		fmt.Fprint(w.Stdout, "\nsetup --undo takes this back; restart slurmctld and slurmd if their files have changed\n")
	}
	if open {
		if err := node.Redo(); err != nil {
			return err
		}
		if err := lease.On(w.Host(c, s.Config)).RestrictNodes(c.Context); err != nil {
			return err
		}
	}
	fmt.Fprintln(w.Stdout)
	return nil
}
