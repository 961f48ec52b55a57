package world

import (
	"path/filepath"

	"gresnet/lib/kernel/devnode"
)

// CloseNodes closes the lease's device nodes against users who have one of them, or their folder, open
// as a path: such a node opens the HCA as soon as that is home.
func (w *World) CloseNodes() error {
	nodes, err := filepath.Glob(filepath.Join(w.Dir.Devices(), "*"))
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := devnode.Set(node, devnode.RootAlone()); err != nil {
			w.Notice("close what is in the lease's dev: %s", err)
		}
	}
	return nil
}
