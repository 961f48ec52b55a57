package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/lease/host"
)

func planCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "plan",
		Usage: "show what would be done for a job, and do nothing",
		Description: `Shows the HCAs that a job would get now; the addresses,
the uplink and the overlay that it would have; and every step
that its prolog would do, in order. With --job it asks the site's sources, as
a prolog does. It reads from the environment what slurmd would say about it
(SLURM_JOB_PARTITION, SLURM_JOB_GPUS, SLURM_NODELIST, …).

Examples:
  gresnet plan --gres nic:2
  gresnet plan --gpus 0,3
  gresnet plan --job 4711
  SLURM_JOB_PARTITION=train gresnet plan --job 1
  SLURM_NODELIST=n[1-4] gresnet plan --gres nic:1`,
		Flags: []urfave.Flag{
			&urfave.UintFlag{Name: "job", Usage: "for the job `ID`, as the site's sources say"},
			&urfave.StringFlag{Name: "gres", Usage: "for a job that has `GRES`, like nic:2 or nic:1(IDX:3)"},
			&urfave.StringFlag{Name: "gpus", Usage: "for a job with the GPUs `LIST`, like 0,3, as source gpu says"},
			jsonFlag(),
		},
		Action: func(c *urfave.Context) error { return plan(w, c) },
	}
}

func plan(w *cli.World, c *urfave.Context) error {
	if err := alone(c); err != nil {
		return err
	}
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		return err
	}
	j, err := plannedJob(w, c)
	if err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	if c.IsSet("job") {
		if err := hasLease(w.Host(c, cfg), j.ID); err != nil {
			return err
		}
	}
	var notes []string
	var wants []gres.Want
	if text := c.String("gres"); text != "" {
		wants, err = request(text, cfg)
	} else {
		if c.IsSet("gpus") {
			cfg.Slurm.Source = []string{config.GPU}
		}
		wants, notes, err = inspect.Ask(c.Context, w.Host(c, cfg), j)
	}
	if err != nil {
		return err
	}
	d, err := inspect.Plan(c.Context, w.Host(c, cfg), j, wants)
	if err != nil {
		return err
	}
	if d.Overlay != nil && w.Getenv("SLURM_NODELIST") == "" {
		notes = append(notes, "SLURM_NODELIST is not set: overlay and names are those of a job of this node alone")
	}
	d.Notes = notes
	return show(w, c, d, func(out io.Writer) error { return printPlan(out, d) })
}

// request returns what --gres asks for.
func request(text string, cfg config.Config) ([]gres.Want, error) {
	wants, err := gres.ParseRequest(text, cfg.Slurm.Gres, "--gres")
	return wants, hint.With(err, "GN284 write it like nic:2, nic:mlx5:1 or nic:1(IDX:3)")
}

// hasLease returns an error if a job has HCAs already: its prolog has run.
func hasLease(n *host.Host, id uint32) error {
	t, err := n.Table().Read()
	if err != nil || len(t.ClaimsOf(id)) == 0 {
		return err
	}
	var names []string
	for _, c := range t.ClaimsOf(id) {
		names = append(names, c.Name)
	}
	do := fmt.Sprintf("GN472 see what was done for it: gresnet status; journalctl -t gresnet-prolog JOB_ID=%d", id)
	return hint.With(fmt.Errorf("plan for job %d: its prolog has run, it has %s", id, strings.Join(names, ", ")), do)
}

// plannedJob returns the job that the flags name.
func plannedJob(w *cli.World, c *urfave.Context) (job.Job, error) {
	given := 0
	for _, name := range []string{"job", "gres", "gpus"} {
		if c.IsSet(name) {
			given++
		}
	}
	if given != 1 {
		return job.Job{}, hint.With(errors.New("plan takes one of --job, --gres and --gpus"), "GN285 see gresnet plan --help")
	}
	j, err := job.FromEnv(func(name string) string {
		switch value := w.Getenv(name); {
		case name == "SLURM_JOB_ID" && c.IsSet("job"):
			return fmt.Sprint(c.Uint("job"))
		case name == "SLURM_JOB_GPUS" && c.IsSet("gpus"):
			return c.String("gpus")
		case value != "":
			return value
		}
		return standIn(w, name)
	})
	switch {
	case err != nil && c.IsSet("job"):
		err = hint.With(fmt.Errorf("--job %d: %w", c.Uint("job"), err), "GN286 give a job's id, as squeue prints it")
	case err != nil && c.IsSet("gpus"):
		err = hint.With(fmt.Errorf("--gpus %s: %w", c.String("gpus"), err), "GN287 write it like 0,3 or 0-3")
	}
	if j.Nodes == "" {
		j.Nodes = j.Node
	}
	return j, err
}

// standIn returns what a plan takes for what only slurmd says, and only a lease needs.
func standIn(w *cli.World, name string) string {
	switch name {
	case "SLURM_JOB_ID":
		return "1"
	case "SLURM_JOB_UID", "SLURM_JOB_GID":
		return "0"
	case "SLURMD_NODENAME":
		return w.NodeName()
	}
	return ""
}

// printPlan prints a plan for people.
func printPlan(w io.Writer, p *report.Plan) error {
	for _, note := range p.Notes {
		fmt.Fprintf(w, "# %s\n", note)
	}
	if len(p.HCAs) == 0 {
		_, err := fmt.Fprintln(w, "no HCA, and nothing to do")
		return err
	}
	for _, h := range p.HCAs {
		fmt.Fprintf(w, "%s %d is %s (%s)\n", h.Gres, h.Number(), h.Name, h.ID)
		for _, port := range h.Ports {
			if len(port.Addresses) > 0 {
				fmt.Fprintf(w, "  %s has %s\n", port.Interface, list(port.Addresses))
			}
		}
	}
	printNetwork(w, p)
	for i, s := range p.Steps {
		if s.Sets != "" {
			s.Object += ": " + s.Sets
		}
		if _, err := fmt.Fprintf(w, "%3d  %s\n", i+1, strings.TrimSpace(s.Kind+" "+s.Object)); err != nil {
			return err
		}
	}
	return nil
}

// printNetwork prints what else of a network a job has.
func printNetwork(w io.Writer, p *report.Plan) {
	if p.Isolation == config.IsolateDevices {
		fmt.Fprintln(w, "the job stays in the node's network")
	}
	if u := p.Uplink; u != nil {
		fmt.Fprintf(w, "uplink %s (%s) has %s", u.Interface, u.Type, u.Address)
		if len(u.Routes) > 0 {
			fmt.Fprintf(w, ", routes to %s", list(u.Routes))
		}
		fmt.Fprintln(w)
	}
	if o := p.Overlay; o != nil {
		fmt.Fprintf(w, "overlay %s has %s, MTU %d\n", o.Interface, o.Address, o.MTU)
		for _, n := range o.Nodes {
			if n.At != "" {
				fmt.Fprintf(w, "  %s is %s, by %s\n", n.Name, n.Address, n.At)
			}
		}
	}
	for _, n := range p.Names {
		fmt.Fprintf(w, "/etc/hosts has %s %s\n", n.Address, strings.Join(n.Names, " "))
	}
}

func list(networks []netip.Prefix) string {
	var all []string
	for _, n := range networks {
		all = append(all, n.String())
	}
	return strings.Join(all, ", ")
}
