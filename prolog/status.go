package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gresnet/lib/config"
	"gresnet/lib/door"
	"gresnet/lib/hint"
	"gresnet/lib/lease"
)

func statusCommand(w *door.World) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show who holds the node's HCAs, and what is wrong",
		ArgsUsage: "[JOBID]",
		Description: `Shows each HCA with the job that has it, and each lease. With a job id it shows
what that job's epilog will undo.

HCA states: free; unmapped: the configuration gives it to nobody; leased to a job; quarantined: no job gets it until
gresnet-epilog release or a reboot. Lease states: complete; refused, since the
job asked for what it cannot have; partial, while a prolog or an epilog is at
work or after one that did not end as it should; damaged.

Examples:
  gresnet-prolog status
  gresnet-prolog status 4711
  gresnet-prolog status --json | jq '.hcas[] | select(.claim.quarantined)'`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			job, err := oneJob(c)
			if err != nil {
				return err
			}
			cfg, err := config.Load(c.String("config"), c.IsSet("config"))
			if err != nil {
				return err
			}
			if err := door.Root(); err != nil {
				return err
			}
			s, err := w.Node(c, cfg).Status(c.Context)
			if err != nil {
				return err
			}
			switch {
			case c.Bool("json"):
				return printJSON(w, s)
			case job != 0:
				return printJob(w, s, job)
			}
			printHCAs(w, s)
			printLeases(w, s)
			return nil
		},
	}
}

// oneJob is the job that the arguments name, 0 if they name none.
func oneJob(c *cli.Context) (uint32, error) {
	if c.NArg() == 0 {
		return 0, nil
	}
	id, err := strconv.ParseUint(c.Args().First(), 10, 32)
	if err != nil || id == 0 || c.NArg() > 1 {
		return 0, hint.With(fmt.Errorf("%q is not a job id", strings.Join(c.Args().Slice(), " ")), "see "+c.App.Name+" status --help")
	}
	return uint32(id), nil
}

func printHCAs(w *door.World, s lease.Status) {
	t := tabwriter.NewWriter(w.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HCA\tGRES\tSTATE\tJOB\tUID\tSINCE")
	for _, h := range s.HCAs {
		fmt.Fprintf(t, "%s\t%s\t", h.HCA.Name, gresOf(h))
		if h.Claim == nil {
			fmt.Fprintf(t, "%s\t-\t-\t-\n", h.State())
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", h.State(), h.Claim.Job, h.Claim.UID, h.Claim.Since.Local().Format("2006-01-02 15:04:05"))
	}
	t.Flush()
	for _, h := range s.HCAs {
		printTrouble(w, h)
	}
}

func gresOf(h lease.HCAStatus) string {
	if h.Gres == "" {
		return "-"
	}
	return fmt.Sprintf("%s %d", h.Gres, h.Index)
}

// printTrouble says what a person must know about an HCA.
func printTrouble(w *door.World, h lease.HCAStatus) {
	if h.Claim == nil || h.Claim.Quarantined == "" {
		return
	}
	fmt.Fprintf(w.Stdout, "\n%s (%s) is quarantined: %s\n", h.HCA.Name, h.HCA.ID, h.Claim.Quarantined)
	if h.Moving {
		fmt.Fprintln(w.Stdout, "  a move of it has not ended: something in the kernel does not let go of it, and no\n"+
			"  network namespace of the node can end meanwhile. If it lasts, the node needs a reboot.")
		return
	}
	fmt.Fprintf(w.Stdout, "  mend the cause, then: gresnet-epilog release %s\n", h.HCA.Name)
}

func printLeases(w *door.World, s lease.Status) {
	if len(s.Leases) == 0 {
		fmt.Fprintln(w.Stdout, "\nno job has a lease")
		return
	}
	fmt.Fprintln(w.Stdout)
	t := tabwriter.NewWriter(w.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tRUN\tLEASE\tAGE\tSTEPS\tHCAS")
	for _, l := range s.Leases {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\n", l.Job, l.Run, l.State, l.Age.Round(time.Second), len(l.Steps), strings.Join(hcasOf(s, l.Job), " "))
	}
	t.Flush()
}

func hcasOf(s lease.Status, job uint32) []string {
	names := []string{}
	for _, h := range s.HCAs {
		if h.Claim != nil && h.Claim.Job == job {
			names = append(names, h.HCA.Name)
		}
	}
	return names
}

func printJob(w *door.World, s lease.Status, job uint32) error {
	for _, l := range s.Leases {
		if l.Job != job {
			continue
		}
		fmt.Fprintf(w.Stdout, "job %d, run %s: %s, %s old\n", l.Job, l.Run, l.State, l.Age.Round(time.Second))
		fmt.Fprintf(w.Stdout, "HCAs: %s\n", strings.Join(hcasOf(s, job), " "))
		for _, p := range l.Steps {
			fmt.Fprintf(w.Stdout, "runs: %s\n", p)
		}
		for _, left := range l.Left {
			fmt.Fprintf(w.Stdout, "to be undone: %s\n", strings.TrimSpace(left.Kind+" "+left.Object))
		}
		for _, h := range s.HCAs {
			if h.Claim != nil && h.Claim.Job == job {
				printTrouble(w, h)
			}
		}
		return nil
	}
	return hint.With(fmt.Errorf("job %d has no lease here", job), "gresnet-prolog status lists the leases")
}
