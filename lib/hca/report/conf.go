package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// TOML prints the tables [[hca]] that are for the HCAs as they are mapped now;
// those that are not come after them, as the next indices of the first name. Those that
// no job would get, since they are reserved for the host, say, are comments, with the reason. A PF in
// parts has one table for all of them, before the others.
func (s Scan) TOML(w io.Writer, names []string) error {
	for _, c := range s.Parts {
		if _, err := fmt.Fprintln(w, partTable(c)); err != nil {
			return err
		}
	}
	for _, h := range s.numbered(names) {
		if h.ID.IsSlot() && h.ID.Slot != "0" && h.Slots > 0 {
			continue // the table of the first slot is for all
		}
		if h.ID.IsSlot() && h.Slots > 0 {
			h.Serves = s.served(h)
		}
		text := fmt.Sprintf("[[hca]] # %s, %s\n%s", h.Name, h.ID.Whole(), table(h, s.match(h)))
		if h.Refused != "" {
			text = strings.ReplaceAll("no job's: "+h.Refused+"\n"+text, "\n", "\n# ")
			text = "# " + strings.TrimSuffix(text, "# ")
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// table returns the table [[hca]] for an HCA, after its first line.
func table(h HCA, match string) string {
	text := fmt.Sprintf("gres  = %q\n", h.Gres)
	if h.Type != "" {
		text += fmt.Sprintf("type  = %q\n", h.Type)
	}
	text += fmt.Sprintf("index = %d\nmatch = %q\n", h.Number(), match)
	if h.Part != "" {
		text += fmt.Sprintf("part  = %q\n", h.Part)
	}
	if h.Slots > 0 {
		text += fmt.Sprintf("count = %d\n", h.Slots)
	}
	if h.Network != "" {
		text += fmt.Sprintf("network = %q\n", h.Network)
	}
	if h.PKey != 0 {
		text += fmt.Sprintf("pkey  = %s\n", h.PKey)
	}
	if len(h.Serves) > 0 {
		text += fmt.Sprintf("gpus  = [%s]\n", list(h.Serves))
	}
	if h.Keep {
		text += "interface = \"keep\"\n"
	}
	if h.Take {
		text += "node = \"take\"\n"
	}
	return text
}

// served lists the GPUs that the slots of a slot's HCA serve: slot n serves the n-th.
func (s Scan) served(h HCA) (gpus []int) {
	for _, o := range s.HCAs {
		if o.ID.Whole() == h.ID.Whole() {
			gpus = append(gpus, o.Serves[:min(1, len(o.Serves))]...)
		}
	}
	return gpus
}

// partTable returns the table [[hca]] for a PF in parts.
func partTable(c config.HCA) string {
	h := HCA{Part: c.Part, Slots: c.Count, Serves: c.GPUs, Keep: c.Interface == config.Keep, Take: c.Take}
	h.Have(c.Gres, c.Type, c.Index)
	text := "[[hca]]\n" + table(h, c.Match.String())
	if c.VF != (config.VF{}) {
		text += fmt.Sprintf("vf = %s\n", c.VF)
	}
	return text
}

func list(numbers []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ", "), "[]")
}

// numbered returns all HCAs with a GRES and an index, in Slurm's order, less those of a PF in parts.
func (s Scan) numbered(names []string) []HCA {
	next := 0
	for _, c := range s.Parts {
		if c.Gres == names[0] {
			next = max(next, c.Index+c.Parts())
		}
	}
	list := slices.DeleteFunc(slices.Clone(s.HCAs), func(h HCA) bool {
		return slices.ContainsFunc(s.Parts, func(c config.HCA) bool { return c.Covers(node.HCA{ID: h.ID}) })
	})
	for _, h := range list {
		if h.Gres == names[0] {
			next = max(next, h.Number()+1)
		}
	}
	for _, refused := range []bool{false, true} {
		for i, h := range list {
			if h.Gres == "" && refused == (h.Refused != "") {
				list[i].Have(names[0], h.Type, next)
				next++
			}
		}
	}
	return inOrder(list, names)
}

// mapped returns the HCAs that are in the mapping, in Slurm's order.
func (s Scan) mapped(names []string) []HCA {
	list := slices.DeleteFunc(slices.Clone(s.HCAs), func(h HCA) bool { return h.Gres == "" })
	return inOrder(list, names)
}

func inOrder(list []HCA, names []string) []HCA {
	slices.SortStableFunc(list, func(a, b HCA) int {
		return cmp.Or(slices.Index(names, a.Gres)-slices.Index(names, b.Gres), a.Number()-b.Number())
	})
	return list
}

// match returns what tells an HCA from the others and lasts longest: its slot; its
// GUID where several share a slot; its name where they share that, too.
func (s Scan) match(h HCA) string {
	alike := func(same func(HCA) bool) int {
		n := 0
		for _, o := range s.HCAs {
			if same(o) && (o.ID == h.ID || o.ID.Whole() != h.ID.Whole()) {
				n++
			}
		}
		return n
	}
	switch {
	case h.pci() != "" && alike(func(o HCA) bool { return o.pci() == h.pci() }) == 1:
		return "pci=" + h.pci()
	case alike(func(o HCA) bool { return o.nodeGUID() == h.nodeGUID() }) == 1:
		return "guid=" + h.nodeGUID()
	}
	return "rdma=" + h.Name
}

// fitType is an error if slurmd does not number an HCA of another type after those before it: it refuses
// HCAs with types and others without, and numbers those of one type one after the other.
func fitType(before []HCA, h HCA) error {
	of := slices.DeleteFunc(slices.Clone(before), func(o HCA) bool { return o.Gres != h.Gres })
	for i, o := range of {
		switch {
		case (o.Type == "") != (h.Type == ""):
			typed, other := o, h
			if o.Type == "" {
				typed, other = h, o
			}
			return hint.With(fmt.Errorf("number %s for gres.conf: %s has type %s and %s has none, which slurmd refuses", h.Gres, typed.Name, typed.Type, other.Name),
				"GN510 give each [[hca]] of a GRES a type, or none of them")
		case o.Type == h.Type && i < len(of)-1 && of[i+1].Type != h.Type:
			return hint.With(fmt.Errorf("number %s for gres.conf: %s, of type %s, is between %s and %s, of type %s: slurmd numbers those of one type one after the other", h.Gres, of[i+1].Name, of[i+1].Type, o.Name, h.Name, h.Type),
				"GN512 put the [[hca]] tables of one type one after the other")
		}
	}
	return nil
}

// Counts returns what slurm.conf promises of the node's HCAs, its Gres=: the types in the order of gres.conf.
func (s Scan) Counts(names []string) string {
	var kinds []string
	count := map[string]int{}
	for _, h := range s.mapped(names) {
		kind := strings.TrimSuffix(h.Gres+":"+h.Type, ":")
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%s:%d", kind, count[kind])
	}
	return strings.Join(kinds, ",")
}

// countOnly keeps Slurm from loading gres/nic for the lines, which would set OMPI_MCA_btl_openib_if_include to
// HCAs that are called mlx4_0 and so on. Indices are as without it.
const countOnly = " Flags=CountOnly"

// GresConf prints the lines of gres.conf for the mapping, with placeholder
// files in dir, and the cores that are near where some are nearer than others.
func (s Scan) GresConf(w io.Writer, names []string, dir string) error {
	files, err := s.Placeholders(names)
	if err != nil {
		return err
	}
	list := s.mapped(names)
	nodes := map[int]bool{}
	for i, h := range list {
		nodes[h.seat()] = true
		if i > 0 && h.Type != list[i-1].Type {
			if err := fitType(list[:i], h); err != nil {
				return err
			}
		}
	}
	for i, h := range list {
		line := "Name=" + h.Gres
		if h.Type != "" {
			line += " Type=" + h.Type
		}
		line += " File=" + dir + "/" + files[i] + countOnly
		if len(nodes) > 1 && len(h.Cores) > 0 {
			line += " Cores=" + node.FormatIndices(h.Cores)
		}
		if _, err := fmt.Fprintf(w, "%s # %s %s\n", line, h.Name, h.ID); err != nil {
			return err
		}
	}
	return nil
}
