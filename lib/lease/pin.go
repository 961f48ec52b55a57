package lease

import (
	"context"
	"slices"

	"gresnet/lib/hca/gres"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
)

// pin returns the mapping, and writes all of its HCAs into the table: so an index that a source
// takes from it means the same HCA when the job claims it, even if others come meanwhile. It takes
// the node lock only if the table lacks an HCA.
func (n *Host) pin(ctx context.Context, mapped func(*table.Table) (gres.Mapping, error)) (m gres.Mapping, err error) {
	t, err := n.Table().Read()
	if err != nil {
		return nil, err
	}
	known := slices.Clone(t.HCAs)
	if m, err = mapped(&t); err != nil || len(t.HCAs) == len(known) {
		return m, err
	}
	err = n.Table().Update(ctx, func(now *table.Table) error {
		if slices.EqualFunc(now.HCAs, known, sameHCA) {
			now.HCAs = t.HCAs // nobody has pinned any meanwhile: what was seen is as good as another look
			return nil
		}
		m, err = mapped(now)
		return err
	})
	return m, err
}

func sameHCA(a, b node.HCA) bool { return a.ID == b.ID }
