package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/cli"
	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/inspect"
	"gresnet/lib/job"
	"gresnet/lib/node"
	"gresnet/lib/step"
)

func planCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "plan",
		Usage: "show what would be done for a job, and do nothing",
		Description: `Shows the HCAs that a job would get now, and every step that its prolog would
do, in order. With --job it asks the site's sources, as a prolog does. It
reads from the environment what slurmd would say about the job
(SLURM_JOB_PARTITION, SLURM_JOB_GPUS, …).

Examples:
  gresnet-prolog plan --gres nic:2
  gresnet-prolog plan --gpus 0,3
  gresnet-prolog plan --job 4711
  SLURM_JOB_PARTITION=train gresnet-prolog plan --job 1`,
		Flags: []urfave.Flag{
			&urfave.UintFlag{Name: "job", Usage: "for the job `ID`, as the site's sources say"},
			&urfave.StringFlag{Name: "gres", Usage: "for a job that has `GRES`, like nic:2 or nic:1(IDX:3)"},
			&urfave.StringFlag{Name: "gpus", Usage: "for a job that has the GPUs `LIST`, like 0,3, as source gpu says"},
			jsonFlag(),
		},
		Action: func(c *urfave.Context) error { return plan(w, c) },
	}
}

func plan(w *cli.World, c *urfave.Context) error {
	if err := cli.Alone(c); err != nil {
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
	var p planned
	var wants []gres.Want
	if text := c.String("gres"); text != "" {
		wants, err = gres.ParseRequest(text, cfg.Slurm.Gres, "--gres")
		err = hint.With(err, "write it like nic:2, nic:mlx5:1 or nic:1(IDX:3)")
	} else {
		if c.IsSet("gpus") {
			cfg.Slurm.Source = []string{config.GPU}
		}
		wants, p.Notes, err = inspect.Ask(c.Context, w.Host(c, cfg), j)
	}
	if err != nil {
		return err
	}
	if len(wants) > 0 {
		if err := p.fill(c, w.Host(c, cfg), j, wants); err != nil {
			return err
		}
	}
	return show(w, c, p, p.print)
}

// plannedJob is the job that the flags name.
func plannedJob(w *cli.World, c *urfave.Context) (job.Job, error) {
	given := 0
	for _, name := range []string{"job", "gres", "gpus"} {
		if c.IsSet(name) {
			given++
		}
	}
	if given != 1 {
		return job.Job{}, hint.With(errors.New("say one of --job, --gres and --gpus"), "see gresnet-prolog plan --help")
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
		err = hint.With(fmt.Errorf("--job %d: %w", c.Uint("job"), err), "give a job's id, as squeue prints it")
	case err != nil && c.IsSet("gpus"):
		err = hint.With(fmt.Errorf("--gpus %s: %w", c.String("gpus"), err), "write it like 0,3 or 0-3")
	}
	if j.Nodes == "" {
		j.Nodes = j.Node
	}
	return j, err
}

// standIn is what a plan takes for what only slurmd says, and only a lease needs.
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

// planned is a plan, for people and machines.
type planned struct {
	Notes []string      `json:"notes,omitempty"`
	HCAs  []plannedHCA  `json:"hcas"`
	Steps []plannedStep `json:"steps"`
}

type plannedHCA struct {
	Gres  string  `json:"gres"`
	Index int     `json:"index"`
	Name  string  `json:"name"`
	ID    node.ID `json:"id"`
}

type plannedStep struct {
	Kind   string `json:"kind"`
	Object string `json:"object,omitempty"`
	HCA    string `json:"hca,omitempty"`
}

func (p *planned) fill(c *urfave.Context, n *host.Host, j job.Job, wants []gres.Want) error {
	entries, steps, err := inspect.Plan(c.Context, n, j, wants)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p.HCAs = append(p.HCAs, plannedHCA{Gres: e.Gres, Index: e.Index, Name: e.HCA.Name, ID: e.HCA.ID})
	}
	for _, s := range steps {
		p.Steps = append(p.Steps, describe(s))
	}
	return nil
}

func describe(s step.Step) plannedStep {
	return plannedStep{Kind: s.Kind(), Object: s.Object(), HCA: s.HCA().String()}
}

func (p *planned) print(w io.Writer) error {
	for _, note := range p.Notes {
		fmt.Fprintf(w, "# %s\n", note)
	}
	if len(p.HCAs) == 0 {
		_, err := fmt.Fprintln(w, "no HCA, and nothing to do")
		return err
	}
	for _, h := range p.HCAs {
		fmt.Fprintf(w, "%s %d is %s (%s)\n", h.Gres, h.Index, h.Name, h.ID)
	}
	for i, s := range p.Steps {
		if _, err := fmt.Fprintf(w, "%3d  %s\n", i+1, strings.TrimSpace(s.Kind+" "+s.Object)); err != nil {
			return err
		}
	}
	return nil
}
