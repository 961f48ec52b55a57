package config

import (
	"path/filepath"
)

// Metrics is the table [metrics].
type Metrics struct {
	File string // for node_exporter's textfile collector; empty: nothing is counted
}

func (m *Metrics) read(t table) {
	t.Allow(
		// | path of a file that ends in `.prom`, in the folder of node_exporter's
		// `--collector.textfile.directory`; without it gresnet counts nothing
		"file",
	)
	if m.File, _ = t.Text("file"); m.File != "" && (!filepath.IsAbs(m.File) || filepath.Ext(m.File) != ".prom" || filepath.Base(m.File) == ".prom") {
		t.Fail("file", `GN149 name a file in the folder of --collector.textfile.directory; node_exporter reads those that end in .prom`,
			"%q is not the whole path of a .prom file", m.File)
	}
}
