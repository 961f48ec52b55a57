package hint

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"strings"
)

//go:embed messages.txt
var messages string

var isID = regexp.MustCompile(`^GN\d{3}$`)

// Explain prints what the messages with some ids say and what to do, or the whole list. In a message … stands for
// what the program fills in.
func Explain(w io.Writer, ids []string) error {
	if len(ids) == 0 {
		_, err := io.WriteString(w, messages)
		return err
	}
	for i, id := range ids {
		text, err := explanation(strings.Trim(strings.ToUpper(id), "[]"))
		if err != nil {
			return err
		}
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// of returns the text for an id.
func explanation(id string) (string, error) {
	if !isID.MatchString(id) {
		return "", With(fmt.Errorf("explain %q: it is not an id", id), "GN833 ids are at the ends of lines, like GN009")
	}
	var text strings.Builder
	title := ""
	for line := range strings.Lines(messages) {
		line = strings.TrimSuffix(line, "\n")
		if name, is := strings.CutPrefix(line, "# "); is {
			title = name
		}
		if line == id {
			return "", With(fmt.Errorf("explain %s: no message has it any more", id), "GN834 an older version said it: run explain with that version")
		}
		if said, is := strings.CutPrefix(line, id+": "); is {
			problem, do, _ := strings.Cut(said, " → ")
			fmt.Fprintf(&text, "%s, of: %s\n  message: %s\n  what to do: %s\n", id, title, problem, do)
		}
	}
	if text.Len() == 0 {
		return "", With(fmt.Errorf("explain %s: no message has it", id), "GN835 gresnet explain lists all")
	}
	return text.String(), nil
}
