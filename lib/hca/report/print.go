package report

import (
	"encoding/json"
	"io"
)

// Document is what is printed as a whole. Only this package has documents, so docs/json.md has all.
type Document interface{ stamp() }

// Stamp begins each document.
type Stamp struct {
	Version int `json:"version"` // of the shape, 1
}

func (s *Stamp) stamp() { s.Version = Version }

// Print prints a document for people to read, too.
func Print(w io.Writer, d Document) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return encode(enc, d)
}

// PrintLine prints a document on one line.
func PrintLine(w io.Writer, d Document) error { return encode(json.NewEncoder(w), d) }

func encode(enc *json.Encoder, d Document) error {
	d.stamp()
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}
