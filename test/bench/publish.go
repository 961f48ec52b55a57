package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// published is a table of a document, by the results of a run in docs.
type published struct {
	document, kind, run string
	table               func(results) string
}

func documents() []published {
	return []published{
		{"README.md", "in short", "speed.json", results.row},
		{"docs/speed.md", "make bench", "speed.json", results.markdown},
		{"docs/speed.md", "peers", "speed.json", results.peers},
		{"test/bench/README.md", "goals", "speed.json", results.scorecard},
		{"test/bench/README.md", "make bench-native", "native.json", results.markdown},
		{"docs/speed.md", "make bench-parts", "parts.json", results.parts},
		{"docs/speed.md", "make bench-load", "load.json", results.curves},
	}
}

// publishCommand copies the results that a folder has to docs, and makes the plot and the tables of
// the documents again. It is run in the repository's root.
func publishCommand(args []string) error {
	f := flag.NewFlagSet("publish", flag.ContinueOnError)
	if err := arguments(f, args, 1); err != nil {
		return err
	}
	runs := map[string]results{}
	for _, name := range []string{"speed.json", "native.json", "parts.json", "load.json"} {
		r, err := readResults(filepath.Join(f.Arg(0), name))
		if errors.Is(err, fs.ErrNotExist) {
			r, err = readResults(filepath.Join("docs", name))
		}
		if err != nil {
			return err
		}
		if err := r.write(filepath.Join("docs", name)); err != nil {
			return err
		}
		runs[name] = r
	}
	if err := os.WriteFile("docs/speed.svg", []byte(runs["speed.json"].plot()), 0o644); err != nil {
		return err
	}
	for _, d := range documents() {
		text, err := os.ReadFile(d.document)
		if err != nil {
			return err
		}
		out, err := fill(string(text), d.kind, d.table(runs[d.run]))
		if err != nil {
			return fmt.Errorf("%s: %w", d.document, err)
		}
		if err := os.WriteFile(d.document, []byte(out), 0o644); err != nil {
			return err
		}
	}
	return nil
}
