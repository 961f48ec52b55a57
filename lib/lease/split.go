package lease

import (
	"context"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/lease/part"
	"gresnet/lib/state/table"
)

// split makes the parts of HCAs that the configuration gives to jobs, where they are RDMA devices of their own.
func (n *Host) split(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Split)
	defer cancel()
	var failed []error
	for _, h := range n.Config.HCAs {
		if !h.Kind().Splits() {
			continue
		}
		t, err := n.Table().Read()
		if err == nil {
			err = part.Of(h.Kind()).Make(ctx, &part.Making{
				Sys: n.Sys, Want: h, Taken: takenOf(&t, h, Lost(n.Host)),
				Notice: func(format string, args ...any) { n.Notice(0, format, args...) },
			})
		}
		failed = append(failed, err)
	}
	return hint.Join(failed...)
}

// takenOf returns the numbers of the parts of an HCA that leases have. A lease that ended when the
// node lost the part has it no more: the part must be made again before it can get its settings.
func takenOf(t *table.Table, h config.HCA, lost func(table.Claim) bool) map[int]bool {
	taken := map[int]bool{}
	for _, c := range t.Claims {
		if number, is := h.Kind().PartOf(c.HCA, h.Match.Value); is && !lost(c) {
			taken[number] = true
		}
	}
	return taken
}
