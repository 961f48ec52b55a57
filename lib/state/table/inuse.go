package table

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"gresnet/lib/base/node"
	"gresnet/lib/state"
)

// InUse returns a line for each HCA, and each slot, that a job has: the RDMA device's name, its PCI
// address, its network interfaces and the job. A quarantined HCA is in use by no job.
func (t *Table) InUse() []byte {
	var text bytes.Buffer
	for _, c := range slices.SortedFunc(slices.Values(t.Claims), byHCA) {
		if c.Quarantined == "" {
			pci, interfaces := t.seat(c.HCA.Whole())
			fmt.Fprintf(&text, "%s %s %s %d\n", cmp.Or(c.Name, "-"), cmp.Or(pci, "-"), cmp.Or(interfaces, "-"), c.Job)
		}
	}
	return text.Bytes()
}

// seat returns the PCI address of an HCA, and the names of its interfaces.
func (t *Table) seat(id node.ID) (pci, interfaces string) {
	for _, h := range t.HCAs {
		if h.ID != id {
			continue
		}
		var names []string
		for _, p := range h.Ports {
			if p.Interface != "" {
				names = append(names, p.Interface)
			}
		}
		return h.PCI(), strings.Join(names, ",")
	}
	return id.PCI, ""
}

// writeInUse has the list of HCAs in use agree with the table. It comes before the table is written: an HCA
// that a kill leaves in the list alone is on the node. Readers take no lock, so it is replaced by rename.
func (f Folder) writeInUse(t *Table) error {
	file, text := state.Dir(f).InUse(), t.InUse()
	now, err := os.ReadFile(file)
	if err == nil && bytes.Equal(now, text) || len(text) == 0 && os.IsNotExist(err) {
		return nil
	}
	if err := state.Replace(file, file+".new", text); err != nil {
		return fmt.Errorf("list the HCAs that jobs have: %w", err)
	}
	return nil
}
