package config

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// linesOf tells on which line each key and table of a TOML text stands: "slurm.gres", "hca[1].index". Keys
// inside inline tables are not among them. The text has been parsed, and is valid: so a statement reads by
// itself once its last line is there, as of a list of several lines.
func linesOf(text string) map[string]int {
	lines := map[string]int{}
	entries := map[string]int{} // of each array of tables
	table, statement, begun, line := "", "", 1, 1
	for more := range strings.Lines(text) {
		statement += more
		line++
		read, err := toml.Decode(statement, new(map[string]any))
		if err != nil {
			continue
		}
		if keys := read.Keys(); len(keys) > 0 {
			within, isTable := table, strings.HasPrefix(strings.TrimLeft(statement, " \t"), "[")
			if isTable {
				within = ""
			}
			place := placeOf(within, keys[0], entries)
			if read.Type(keys[0]...) == "ArrayHash" {
				entries[place]++
				place = fmt.Sprintf("%s[%d]", place, entries[place]-1)
			}
			if isTable {
				table = place
			}
			if _, known := lines[place]; !known {
				lines[place] = begun
			}
		}
		statement, begun = "", line
	}
	return lines
}

// placeOf returns the place of a dotted key in a table. A part that is an array of tables means the last of them
// so far.
func placeOf(place string, key toml.Key, entries map[string]int) string {
	for i, part := range key {
		if n := entries[place]; i > 0 && n > 0 {
			place = fmt.Sprintf("%s[%d]", place, n-1)
		}
		place = join(place, part)
	}
	return place
}
