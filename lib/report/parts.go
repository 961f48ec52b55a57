package report

import (
	"fmt"
	"io"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/indices"
	"gresnet/lib/pkey"
)

// PrintParts says which HCAs are VFs, and which are for which partitions, as scan and status do.
func PrintParts(w io.Writer, hcas []HCA) {
	for _, h := range hcas {
		if h.ID.VF != "" {
			fmt.Fprintf(w, "%s is VF %s of %s\n", h.Name, h.ID.VF, pfOf(hcas, h))
		}
	}
	type group struct {
		key  pkey.Text
		gres string
	}
	var groups []group
	numbers := map[group][]int{}
	for _, h := range hcas {
		g := group{h.PKey, h.Gres}
		if h.PKey == 0 && h.Part != config.PartPKey {
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
		fmt.Fprintf(w, "%s: %s %s\n", name, g.gres, indices.Format(numbers[g]))
	}
}

// pfOf names the PF of a VF: by its RDMA device, if it has one.
func pfOf(hcas []HCA, vf HCA) string {
	for _, h := range hcas {
		if h.ID.VF == "" && h.ID.PCI == vf.ID.PCI {
			return h.Name
		}
	}
	return vf.ID.PCI
}
