package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/hca/report"
	"gresnet/lib/people/cli"
	"gresnet/lib/people/inspect"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/indices"
)

func statusCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "status",
		Usage:     "show who holds the node's HCAs, and what is wrong",
		ArgsUsage: "[JOBID]",
		Description: `Shows each HCA with the job that has it, and each lease. With a job id it
shows what that job's epilog will undo.

HCA states:
  free         jobs can have it
  leased       a job has it
  quarantined  no job gets it until gresnet release or a reboot; or,
               if a user's process uses it, until that process ends
  unmapped     the configuration gives it to no job
  gone         the node does not have it any more
  missing      the configuration lists it, and the node has not had it since
               it was booted

Lease states:
  complete     the job has its HCAs
  refused      the job asked for what it cannot have
  partial      a prolog or an epilog is at work, or was interrupted
  damaged      the journal cannot be read

Owed are settings that interfaces of two jobs share, such as a route over
both: the interface that is home gets them when the other one is, too.

Examples:
  gresnet status
  gresnet status 4711
  gresnet status --json | jq '.hcas[] | select(.claim.quarantined)'`,
		Flags: []urfave.Flag{jsonFlag()},
		Action: func(c *urfave.Context) error {
			id, err := oneJob(c)
			if err != nil {
				return err
			}
			cfg, err := cli.Site(c)
			if err != nil {
				return err
			}
			s, err := inspect.ReadStatus(w.Host(c, cfg))
			if err != nil {
				return err
			}
			if id != 0 {
				if s, err = ofJob(s, id); err != nil {
					return err
				}
			}
			err = show(w, c, s, func(out io.Writer) error {
				if id != 0 {
					return printJob(out, s, id)
				}
				return printStatus(out, s)
			})
			// Who has what is to be seen on a node whose mapping does not hold, too.
			return hint.Join(err, s.Drift)
		},
	}
}

// oneJob returns the job that the arguments name, 0 if they name none.
func oneJob(c *urfave.Context) (uint32, error) {
	if c.NArg() == 0 {
		return 0, nil
	}
	id, err := strconv.ParseUint(c.Args().First(), 10, 32)
	if err != nil || id == 0 || c.NArg() > 1 {
		return 0, hint.With(fmt.Errorf("%q is not a job id", strings.Join(c.Args().Slice(), " ")), "GN297 see "+c.App.Name+" status --help")
	}
	return uint32(id), nil
}

func printStatus(w io.Writer, s *report.Status) error {
	if err := printHCAs(w, s); err != nil {
		return err
	}
	if err := printOwed(w, s); err != nil {
		return err
	}
	return printLeases(w, s)
}

// printOwed says what interfaces are still to have.
func printOwed(w io.Writer, s *report.Status) error {
	for _, o := range s.Owed {
		_, err := fmt.Fprintf(w, "\n%s is owed what it shares with %s:\n  %s\n"+
			"  job %d had it; the epilog or sweep that finds all of them home gives it.\n", o.Interface, strings.Join(o.With, ", "), strings.Join(o.What, "\n  "), o.Job)
		if err != nil {
			return err
		}
	}
	return nil
}

func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

func printHCAs(w io.Writer, s *report.Status) error {
	t := columns(w)
	fmt.Fprintln(t, "HCA\tGRES\tSTATE\tJOB\tUID\tSINCE")
	for _, h := range s.HCAs {
		fmt.Fprintf(t, "%s\t%s\t%s\n", cmp.Or(h.Name, "-"), gresOf(h), claimOf(h))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	report.PrintParts(w, s.HCAs)
	for _, h := range s.HCAs {
		printTrouble(w, h)
	}
	return nil
}

func gresOf(h report.HCA) string {
	if h.Gres == "" {
		return "-"
	}
	return fmt.Sprintf("%s %d", h.Gres, h.Number())
}

// claimOf returns who has an HCA, in four columns.
func claimOf(h report.HCA) string {
	c := h.Claim
	if c == nil {
		return h.State + "\t-\t-\t-"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s", h.State, c.Job, c.UID, since(*c))
}

func since(c report.Claim) string { return c.Since.Local().Format("2006-01-02 15:04:05") }

// printTrouble says what a person must know about an HCA.
func printTrouble(w io.Writer, h report.HCA) {
	if h.Gone {
		fmt.Fprintf(w, "\n%s (%s) is gone:\n"+
			"  the node does not have it any more, see dmesg and lspci. Its number stays\n"+
			"  taken until the next boot.\n", h.Name, h.ID)
	}
	if h.Missing != "" {
		fmt.Fprintf(w, "\n%s is missing:\n  %s\n"+
			"  a job that needs it fails its prolog; see gresnet check.\n", gresOf(h), h.Missing)
	}
	if h.User != "" {
		fmt.Fprintf(w, "\n%s (%s) is quarantined:\n  no job has it, but %s uses it.\n  Jobs get it when that has ended.\n", h.Name, h.ID, h.User)
	}
	if h.Claim == nil || h.Claim.Quarantined == "" {
		return
	}
	fmt.Fprintf(w, "\n%s (%s) is quarantined:\n  %s\n", h.Name, h.ID, h.Claim.Quarantined)
	if h.Moving {
		fmt.Fprintln(w, "  a move of it has not ended: something in the kernel does not let go of it,\n"+
			"  and no network namespace of the node can end meanwhile. If it lasts,\n"+
			"  the node needs a reboot.")
		return
	}
	fmt.Fprintf(w, "  mend the cause, then: gresnet release %s\n", h.Name)
}

func printLeases(w io.Writer, s *report.Status) error {
	if len(s.Leases) == 0 {
		_, err := fmt.Fprintln(w, "\nno job has a lease")
		return err
	}
	fmt.Fprintln(w)
	t := columns(w)
	fmt.Fprintln(t, "JOB\tRUN\tLEASE\tAGE\tSTEPS\tHCAS")
	for _, l := range s.Leases {
		groups := grouped(hcasOf(s, l.Job))
		if l.Uplink != "" {
			groups = append(groups, "uplink "+l.Uplink)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\n", l.Job, cmp.Or(l.Run, "-"), l.State, age(l.Age), len(l.Steps), groups[0])
		for _, more := range groups[1:] {
			fmt.Fprintf(t, "\t\t\t\t\t%s\n", more)
		}
	}
	return t.Flush()
}

// age returns how old a lease is, in its two largest units.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Round(time.Second).String()
}

func hcasOf(s *report.Status, id uint32) []string {
	names := []string{}
	for _, h := range s.HCAs {
		if h.Claim != nil && h.Claim.Job == id {
			names = append(names, h.Name)
		}
	}
	return names
}

// grouped writes names that differ by a number at their end as one, as Slurm
// does with hosts: mlx5_[0-3]. Of no names it is a dash.
func grouped(names []string) []string {
	var groups []string
	at, numbers := map[string]int{}, map[string][]int{} // by what is before the number
	for _, name := range names {
		prefix := strings.TrimRight(name, "0123456789")
		n, err := strconv.Atoi(name[len(prefix):])
		if err != nil || strconv.Itoa(n) != name[len(prefix):] {
			groups = append(groups, name) // it has no number, or one like 07
			continue
		}
		if _, known := at[prefix]; !known {
			at[prefix] = len(groups)
			groups = append(groups, name)
		}
		numbers[prefix] = append(numbers[prefix], n)
	}
	for prefix, list := range numbers {
		if len(list) > 1 {
			slices.Sort(list)
			groups[at[prefix]] = prefix + "[" + indices.Format(list) + "]"
		}
	}
	if len(groups) == 0 {
		return []string{"-"}
	}
	return groups
}

// ofJob returns what a status has of a job.
func ofJob(s *report.Status, id uint32) (*report.Status, error) {
	s.HCAs = slices.DeleteFunc(s.HCAs, func(h report.HCA) bool { return h.Claim == nil || h.Claim.Job != id })
	s.Leases = slices.DeleteFunc(s.Leases, func(l report.Lease) bool { return l.Job != id })
	s.Owed = slices.DeleteFunc(s.Owed, func(d report.Owed) bool { return d.Job != id })
	if len(s.Leases) == 0 {
		return s, hint.With(fmt.Errorf("job %d has no lease here", id), "GN298 gresnet status lists the leases")
	}
	return s, nil
}

// printJob prints a status of one job.
func printJob(w io.Writer, s *report.Status, id uint32) error {
	l := s.Leases[0]
	fmt.Fprintf(w, "job %d, run %s: %s, %s old\n", l.Job, l.Run, l.State, age(l.Age))
	fmt.Fprintf(w, "HCAs: %s\n", strings.Join(grouped(hcasOf(s, id)), " "))
	report.PrintParts(w, s.HCAs)
	if l.Uplink != "" {
		fmt.Fprintf(w, "uplink: %s\n", l.Uplink)
	}
	for _, p := range l.Steps {
		fmt.Fprintf(w, "runs: %s\n", p)
	}
	for _, left := range l.Left {
		fmt.Fprintf(w, "to be undone: %s\n", strings.TrimSpace(left.Kind+" "+left.Object))
	}
	for _, h := range s.HCAs {
		if h.Claim != nil && h.Claim.Job == id {
			printTrouble(w, h)
		}
	}
	return nil
}
