// Package plain makes what users name harmless to print: processes, mount points, paths, interfaces.
//
// A name may have bytes that steer a terminal, begin a line of a log, or turn the order of what is read
// (U+202E). What is written for people or for a log goes through this package: a name by Name where it is
// put into a sentence, and all of it by Text or Writer where it leaves the program.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Name returns a name as it stands in a sentence: in quotes unless it is of harmless characters alone, so
// that it cannot pass for a part of the sentence.
func Name(name string) string {
	harmless := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("._+-/:@", r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !harmless(r) }) < 0 {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// Text returns one line of a text with escapes for what is not printed as itself, line feeds among them.
func Text(text string) string {
	if strings.IndexFunc(text, hostile) < 0 && utf8.ValidString(text) {
		return text
	}
	return string(escape([]byte(text), hostile))
}

// hostile tells a character that a terminal does not print as itself.
func hostile(r rune) bool { return !unicode.IsPrint(r) }

// Writer returns a writer that writes lines and tables with escapes for what is not printed as itself. In
// JSON the escapes are JSON's.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	layout := func(r rune) bool { return r != '\n' && r != '\t' && hostile(r) }
	out := p
	if bytes.IndexFunc(p, layout) >= 0 || !utf8.Valid(p) {
		out = escape(p, layout)
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func escape(text []byte, escaped func(rune) bool) (b []byte) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `\x%02x`, text[0])
		case !escaped(r):
			b = append(b, text[:size]...)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return b
}
