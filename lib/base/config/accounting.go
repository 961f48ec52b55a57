package config

import (
	"path/filepath"
)

// Accounting is the table [accounting].
type Accounting struct {
	File string // gets a line for each job, of what its HCAs carried; empty: none
}

func (a *Accounting) read(t table) {
	t.Allow(
		// | path of a file to which each epilog appends a line of JSON: what the job sent and received by each
		// HCA
		"file",
	)
	if a.File, _ = t.Text("file"); a.File != "" && (!filepath.IsAbs(a.File) || filepath.Clean(a.File) != a.File) {
		t.Fail("file", "GN144 name a file in a folder that root alone may write, as /var/lib/gresnet/jobs.jsonl", "%q is not the whole path of a file", a.File)
	}
}
