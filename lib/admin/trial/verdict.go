package trial

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
)

// Write writes what can be shown to others into a file: JSON, or the table if the file's name ends in .txt.
// Without a path it writes nothing.
func Write(path string, found *report.Trial) error {
	if path == "" {
		return nil
	}
	host, _ := os.Hostname() // a host without a name has none to hide
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err == nil {
		print := func() error { return report.Print(file, Redacted(*found, host)) }
		if strings.HasSuffix(path, ".txt") {
			print = func() error { return Redacted(*found, host).Table(file) }
		}
		err = hint.Join(print(), file.Close())
	}
	if err != nil {
		return hint.With(fmt.Errorf("write the report: %w", err), "GN635 name a file in a folder that is there")
	}
	return nil
}

// Judge returns an error that names the HCAs which are not good. One that is refused is good unless
// somebody named it, or no other was tried.
func Judge(found *report.Trial, named, interrupted bool) error {
	var bad, refused []string
	for _, h := range found.HCAs {
		switch h.Verdict {
		case report.Good:
		case report.NoJobs:
			refused = append(refused, h.Name)
		default:
			bad = append(bad, h.Name)
		}
	}
	if named || len(refused) == len(found.HCAs) {
		bad = append(bad, refused...)
	}
	switch {
	case interrupted:
		return hint.With(errors.New("interrupted"), "GN636 what had been taken is returned; run it again")
	case len(bad) > 0:
		return hint.With(fmt.Errorf("%d of %d HCAs are not good: %s", len(bad), len(found.HCAs), strings.Join(bad, ", ")),
			"GN637 the lines below the table say why; keep jobs from these HCAs, and attach the file of --report to an issue")
	}
	return nil
}
