package slurm

import "strings"

// GoesOn tells whether the file ends with a backslash: a line that is added to it would go on that one.
func (f File) GoesOn() bool { return f.open }

// Replace returns the file's text with another value of a pair of its.
func (f File) Replace(p Pair, value string) string {
	return f.Text[:p.begin] + quote(value, f.Text[p.begin] == '"') + f.Text[p.end:]
}

// Insert returns the file's text with Key=Value after a pair of its.
func (f File) Insert(after Pair, key, value string) string {
	return f.Text[:after.end] + " " + key + "=" + quote(value, false) + f.Text[after.end:]
}

// quote writes a value as Slurm reads it.
func quote(value string, quoted bool) string {
	text := strings.NewReplacer(`\`, `\\`, "#", `\#`).Replace(value)
	if quoted || value == "" || strings.ContainsAny(value, spaces) {
		return `"` + text + `"`
	}
	return text
}
