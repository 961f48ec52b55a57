package main

import (
	"fmt"
	"io"
	"os"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/machine"
	"gresnet/lib/people/check"
	"gresnet/lib/people/cli"
	"gresnet/lib/people/inspect"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
)

// machineFlag has a command tell of a node that is not there.
func machineFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "machine", Usage: "take the layout in `FILE`, of scan --capture, for the node"}
}

// layout reads the layout that --machine names, with the site's configuration.
func layout(c *urfave.Context) (*inspect.Layout, config.Config, error) {
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		return nil, cfg, err
	}
	m, err := machine.Read(c.String("machine"))
	if err != nil {
		return nil, cfg, err
	}
	l, err := inspect.Lay(m, cfg)
	return l, cfg, err
}

// scanMachine shows the HCAs of a machine.
func scanMachine(w *cli.World, c *urfave.Context) error {
	if err := oneOf(c, "machine", "gres-files"); err != nil {
		return err
	}
	l, cfg, err := layout(c)
	if err != nil {
		return err
	}
	return printScan(w, c, l.Scan(), cfg, l.Drift)
}

// planMachine shows which HCAs a job would get on a machine.
func planMachine(w *cli.World, c *urfave.Context) error {
	if err := oneOf(c, "machine", "job"); err != nil {
		return err
	}
	l, cfg, err := layout(c)
	if err != nil {
		return err
	}
	j, err := plannedJob(w, c)
	if err != nil {
		return err
	}
	var wants []gres.Want
	if text := c.String("gres"); text != "" {
		if wants, err = request(text, cfg); err != nil {
			return err
		}
	}
	d, err := l.Plan(c.Context, j, wants)
	if err != nil {
		return hint.Join(err, l.Drift)
	}
	return show(w, c, d, func(out io.Writer) error { return printPlan(out, d) })
}

// checkMachine says whether jobs on a machine get what its layout says.
func checkMachine(w *cli.World, c *urfave.Context) error {
	if err := hint.Join(oneOf(c, "machine", "fix"), oneOf(c, "machine", "role")); err != nil {
		return err
	}
	l, cfg, err := layout(c)
	if err != nil {
		return err
	}
	s := check.Site{Inventory: l.Scan(), Config: cfg, Drift: l.Drift, Refusals: l.Refusals()}
	return showFindings(w, c, append(s.Mapped(), l.Check(c.Context)...))
}

// capture writes the node's layout into a file.
func capture(w *cli.World, c *urfave.Context, cfg config.Config) error {
	m, err := inspect.Capture(c.Context, w.Host(c, cfg), "gresnet scan --capture "+cli.Version())
	if err != nil {
		return err
	}
	path := c.String("capture")
	if path == "-" {
		_, err := io.WriteString(w.Stdout, m.String())
		return err
	}
	if err := os.WriteFile(path, []byte(m.String()), 0o644); err != nil {
		return hint.With(fmt.Errorf("write the layout: %w", err), "GN789 name a file in a folder that is there")
	}
	return nil
}
