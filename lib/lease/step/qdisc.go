package step

import (
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
)

// remake gives an interface at home the queueing disciplines that the kernel had made for it, if
// net.core.default_qdisc has changed and the kernel makes others by now. Only that sysctl says
// what the kernel makes, so it has its old value for a moment. A notice names what the kernel does
// not make again.
func (s *Settings) remake(w *world.World, v *scan.View, index int) error {
	list, err := v.Link.MadeOtherwise(index, s.Settings)
	if err != nil {
		return err
	}
	for _, m := range list {
		// Kinds are mixed if the interface was given more queues: the kernel will not do that
		// again.
		if len(m.Want) > 1 {
			continue
		}
		if err := w.UnderDefaultQdisc(m.Want[0], func() error { return v.Link.Remake(m) }); err != nil {
			w.Notice("%s: %s", m, err)
		}
	}
	left, err := v.Link.MadeOtherwise(index, s.Settings)
	for _, m := range left {
		w.Notice("%s", m)
	}
	return err
}
