package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/base/node"
)

// Table prints who has which HCA, and each lease.
func (s *Status) Table(w io.Writer) error {
	if err := s.printHCAs(w); err != nil {
		return err
	}
	for _, name := range s.Unjudged {
		fmt.Fprintf(w, "\n%s lacks gresnet's traffic filters:\n  running jobs get nothing by it. The next prolog adds them.\n", name)
	}
	return s.printLeases(w)
}

func (s *Status) printHCAs(w io.Writer) error {
	t := columns(w)
	fmt.Fprintln(t, "HCA\tGRES\tSTATE\tJOB\tUID\tSINCE")
	for _, h := range s.HCAs {
		fmt.Fprintf(t, "%s\t%s\t%s\n", dash(h.Name), h.gres(), claimOf(h))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	PrintParts(w, s.HCAs)
	for _, h := range s.HCAs {
		printTrouble(w, h)
	}
	return nil
}

// claimOf returns who has an HCA, in four columns.
func claimOf(h HCA) string {
	c := h.Claim
	if c == nil {
		return h.State + "\t-\t-\t-"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s", h.State, c.Job, c.UID, since(*c))
}

func since(c Claim) string { return c.Since.Local().Format("2006-01-02 15:04:05") }

// printTrouble says what a person must know about an HCA.
func printTrouble(w io.Writer, h HCA) {
	if h.Gone {
		fmt.Fprintf(w, "\n%s (%s) is gone:\n"+
			"  the node does not have it any more, see dmesg and lspci. Its number stays\n"+
			"  taken until the next boot.\n", h.Name, h.ID)
	}
	if h.Missing != "" {
		fmt.Fprintf(w, "\n%s is missing:\n  %s\n"+
			"  a job that needs it fails its prolog; see gresnet check.\n", h.gres(), h.Missing)
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
	fmt.Fprintf(w, "  fix the cause, then: gresnet release %s\n", h.Name)
}

func (s *Status) printLeases(w io.Writer) error {
	if len(s.Leases) == 0 {
		_, err := fmt.Fprintln(w, "\nno job has a lease")
		return err
	}
	fmt.Fprintln(w)
	t := columns(w)
	fmt.Fprintln(t, "JOB\tRUN\tLEASE\tAGE\tSTEPS\tHCAS")
	for _, l := range s.Leases {
		groups := grouped(s.hcasOf(l.Job))
		if l.Uplink != "" {
			groups = append(groups, "uplink "+l.Uplink)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\n", l.Job, dash(l.Run), l.State, age(l.Age), len(l.Steps), groups[0])
		for _, more := range groups[1:] {
			fmt.Fprintf(t, "\t\t\t\t\t%s\n", more)
		}
	}
	return t.Flush()
}

// age returns how old a lease is, in its two largest units.
func age(d time.Duration) string {
	switch hours := int(d / time.Hour); {
	case hours >= 24:
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	case hours >= 1:
		return fmt.Sprintf("%dh%dm", hours, d%time.Hour/time.Minute)
	}
	return d.Round(time.Second).String()
}

func (s *Status) hcasOf(id uint32) []string {
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
			groups[at[prefix]] = prefix + "[" + node.FormatIndices(list) + "]"
		}
	}
	if len(groups) == 0 {
		return []string{"-"}
	}
	return groups
}

// JobTable prints a status of one job.
func (s *Status) JobTable(w io.Writer, id uint32) error {
	l := s.Leases[0]
	fmt.Fprintf(w, "job %d, run %s: %s, %s old\n", l.Job, l.Run, l.State, age(l.Age))
	fmt.Fprintf(w, "HCAs: %s\n", strings.Join(grouped(s.hcasOf(id)), " "))
	PrintParts(w, s.HCAs)
	if l.Uplink != "" {
		fmt.Fprintf(w, "uplink: %s\n", l.Uplink)
	}
	if l.Dropped > 0 {
		fmt.Fprintf(w, "dropped: %d packets that it sent from ports that are not its own\n", l.Dropped)
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
