package world

import (
	"gresnet/lib/hca/scan"
	"gresnet/lib/link/sysctl"
)

// TakeSettings gives the job's namespace what the node has set for its own: how many connections wait,
// which ports the kernel chooses, who may ping.
func (w *World) TakeSettings() {
	if err := w.takeSettings(); err != nil {
		w.Notice("not all of the node's network settings hold in the job: %s", err)
	}
}

func (w *World) takeSettings() error {
	var keys []string
	var have, want sysctl.Values
	err := w.InJob(func(*scan.View) (err error) {
		keys, err = sysctl.Own()
		have = sysctl.Settings(keys)
		return err
	})
	if err == nil {
		err = w.OnHost(func(*scan.View) error {
			want = sysctl.Settings(keys)
			return nil
		})
	}
	if err != nil {
		return err
	}
	return w.InJob(func(*scan.View) error { return sysctl.Take(have, want) })
}
