package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gresnet/lib/base/node"
)

// Table prints the inventory for a person: three tables that fit a terminal of 80
// columns, with words and no colors.
func (s Scan) Table(w io.Writer) error {
	if s.Mode != "" { // a machine that is not there has none
		fmt.Fprintf(w, "RDMA netns mode: %s\n\n", s.Mode)
	}
	if len(s.HCAs) == 0 {
		_, err := fmt.Fprintln(w, "no HCA")
		return err
	}
	if err := s.hcas(w); err != nil {
		return err
	}
	if slices.ContainsFunc(s.HCAs, func(h HCA) bool { return len(h.Ports) > 0 }) {
		fmt.Fprintln(w)
		if err := s.ports(w); err != nil {
			return err
		}
	}
	if len(s.GPUs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return s.distances(w)
}

func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

func (s Scan) hcas(w io.Writer) error {
	t := columns(w)
	fmt.Fprintln(t, "GRES\tHCA\tGUID\tPCI\tNUMA\tDRIVER\tJOB")
	for _, h := range s.HCAs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.gres(), h.Name, h.nodeGUID(), dash(shortPCI(h.pci())), h.numa(), dash(h.Driver), h.job())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, h := range s.HCAs {
		if h.ID.Aux != "" {
			fmt.Fprintf(w, "%s is %s\n", h.Name, h.ID.Aux)
		}
		if len(h.Twins) > 0 {
			fmt.Fprintf(w, "%s has the GUID of %s, too: no job gets one of them\n", strings.Join(h.Twins, ", "), h.Name)
		}
		if h.VFs != nil {
			fmt.Fprintf(w, "%s is a PF with %d of %d VFs\n", h.Name, h.VFs.Now, h.VFs.Total)
		}
		if h.VFs != nil && h.VFs.Switchdev {
			fmt.Fprintf(w, "%s is in switchdev mode\n", h.Name)
		}
	}
	PrintParts(w, s.HCAs)
	return nil
}

func (h HCA) gres() string {
	if h.Gres == "" {
		return "-"
	}
	return fmt.Sprintf("%s %d", h.Gres, h.Number())
}

func (h HCA) numa() string {
	if h.seat() < 0 {
		return "-"
	}
	return strconv.Itoa(h.seat())
}

// shortPCI returns a PCI address without the domain that nearly all have, as lspci prints it.
func shortPCI(address string) string { return strings.TrimPrefix(address, "0000:") }

// job returns who has the HCA.
func (h HCA) job() string {
	switch {
	case h.Claim != nil && h.Claim.Quarantined != "":
		return "quarantined"
	case h.Claim != nil:
		return fmt.Sprint(h.Claim.Job)
	case h.Away:
		return "gone"
	}
	return "-"
}

func (s Scan) ports(w io.Writer) error {
	t := columns(w)
	fmt.Fprintln(t, "HCA\tPORT\tLINK\tSTATE\tRATE\tNET\tDEVICES")
	for n, h := range s.HCAs {
		if h.ID.IsSlot() && n > 0 && s.HCAs[n-1].ID.Whole() == h.ID.Whole() {
			continue // another slot of the same HCA
		}
		for i, p := range h.Ports {
			name := ""
			if i == 0 {
				name = h.Name
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", name, p.Num, linkLayer(p.LinkLayer), h.state(p), dash(shortRate(p.Rate)), dash(p.Interface), h.chars(i == 0, p.Num))
		}
	}
	return t.Flush()
}

// linkLayer returns a link layer in few letters.
func linkLayer(name string) string {
	switch name {
	case "InfiniBand":
		return "IB"
	case "Ethernet":
		return "Eth"
	}
	return dash(name)
}

// state returns a port's, unless the port is in a job: then it is not known here.
func (h HCA) state(p Port) string {
	if h.Away {
		return "away"
	}
	return dash(p.State)
}

// shortRate is "100G" for "100 Gb/sec (4X EDR)".
func shortRate(rate string) string {
	number, _, gigabits := strings.Cut(rate, " Gb/sec")
	if !gigabits {
		return rate
	}
	return number + "G"
}

// chars returns the character devices of a port, on its first line with those of the HCA.
func (h HCA) chars(first bool, port uint32) string {
	var names []string
	for _, c := range h.Chars {
		if c.Port == port || c.Port == 0 && first {
			names = append(names, c.Name)
		}
	}
	return dash(strings.Join(names, " "))
}

// short returns a level, as package node names it, in so few letters that 16 GPUs fit.
func short(level string) string {
	switch level {
	case "switch":
		return "sw"
	case "root":
		return "rc"
	case "numa":
		return "nn"
	}
	return "-"
}

// distances says which GPU is how near, and whom each HCA serves.
func (s Scan) distances(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	head := []string{"HCA", "SERVES"}
	for g := range s.GPUs {
		head = append(head, fmt.Sprintf("G%d", g))
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, h := range s.HCAs {
		row := []string{h.Name, dash(node.FormatIndices(h.Serves))}
		for _, level := range h.Distance {
			row = append(row, short(level))
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "sw: same PCIe switch; rc: same root complex; nn: same NUMA node; -: neither")
	return err
}

func dash(text string) string { return cmp.Or(text, "-") }
