package world

import (
	"os"

	"gresnet/lib/hca/scan"
	"gresnet/lib/link/sysctl"
	"gresnet/lib/state"
)

// TakeSettings gives the job's namespace, which is new, what the node has set for its own: how many connections wait,
// which ports the kernel chooses, who may ping.
func (w *World) TakeSettings() {
	if err := w.takeSettings(); err != nil {
		w.Notice("not all of the node's network settings hold in the job: %s", err)
	}
}

func (w *World) takeSettings() error {
	fresh, err := w.fresh()
	if err != nil {
		return err
	}
	var want sysctl.Values
	err = w.OnHost(func(*scan.View) error {
		want = sysctl.Settings(fresh.Keys)
		return nil
	})
	if err != nil {
		return err
	}
	return w.InJob(func(*scan.View) error { return sysctl.Take(fresh, want) })
}

// fresh returns what a new namespace has. To read a few hundred files of each is dear, so the first prolog of a boot
// writes it down for all others. A file that does not hold is replaced; without one, each reads for itself.
func (w *World) fresh() (fresh sysctl.Fresh, err error) {
	file := state.Dir(w.Table).Settings()
	text, _ := os.ReadFile(file)
	if fresh, good := sysctl.ParseFresh(string(text)); good {
		return fresh, nil
	}
	err = w.InJob(func(*scan.View) error {
		fresh, err = sysctl.FreshOf()
		return err
	})
	if next := w.Dir.NewEnv(); err == nil && os.WriteFile(next, []byte(fresh.String()), 0o600) == nil {
		_ = os.Rename(next, file)
	}
	return fresh, err
}
