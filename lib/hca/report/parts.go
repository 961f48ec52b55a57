package report

import (
	"fmt"
	"io"
	"slices"

	"gresnet/lib/base/node"
)

// PrintParts says which HCAs are parts of others, and which are for which partitions, as scan and status do.
func PrintParts(w io.Writer, hcas []HCA) {
	for _, h := range hcas {
		if k := h.ID.Kind(); k.Splits() {
			fmt.Fprintf(w, "%s is %s %s of %s\n", h.Name, k.Title, k.Number(h.ID), pfOf(hcas, h))
		}
	}
	type group struct {
		key  node.PKeyText
		gres string
	}
	var groups []group
	numbers := map[group][]int{}
	for _, h := range hcas {
		g := group{h.PKey, h.Gres}
		if h.PKey == 0 && !node.KindNamed(h.Part).Has("pkey") {
			continue
		}
		if len(numbers[g]) == 0 {
			groups = append(groups, g)
		}
		numbers[g] = append(numbers[g], h.Number())
	}
	for _, g := range groups {
		slices.Sort(numbers[g])
		name := "P_Key " + g.key.String()
		if g.key == 0 {
			name = "P_Keys of [[policy]]"
		}
		fmt.Fprintf(w, "%s: %s %s\n", name, g.gres, node.FormatIndices(numbers[g]))
	}
}

// pfOf names the PF of a part: by its RDMA device, if it has one.
func pfOf(hcas []HCA, part HCA) string {
	for _, h := range hcas {
		if h.ID.PCI == part.ID.PCI && h.ID.IsFunction() {
			return h.Name
		}
	}
	return part.ID.PCI
}
