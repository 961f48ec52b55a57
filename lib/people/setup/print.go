package setup

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Print shows what a plan changes, for a person, and once what each kind of line is for.
func (p Plan) Print(w io.Writer) {
	told := map[string]bool{}
	tell := func(why string) {
		if why != "" && !told[why] {
			fmt.Fprintf(w, "      # %s\n", why)
			told[why] = true
		}
	}
	for _, e := range p.Edits {
		switch {
		case e.Link != "":
			fmt.Fprintf(w, "%s -> %s\n", e.Path, e.Link)
		case !e.There && len(e.After) == 0:
			fmt.Fprintf(w, "%s (an empty file)\n", e.Path)
		case !e.There:
			fmt.Fprintf(w, "%s (a new file)\n", e.Path)
		default:
			fmt.Fprintf(w, "%s\n", e.Path)
		}
		tell(whyOf(e, ""))
		for _, line := range difference(slices.Collect(strings.Lines(string(e.Before))), slices.Collect(strings.Lines(string(e.After)))) {
			fmt.Fprintf(w, "  %s\n", strings.TrimRight(line, "\r\n"))
			if added, is := strings.CutPrefix(line, "+ "); is {
				tell(whyOf(e, strings.TrimSpace(added)))
			}
		}
	}
}

// difference returns what of two lists of lines is not in both: the lines of the first after "- ", those
// of the second after "+ ".
func difference(before, after []string) (all []string) {
	// longest[i][j] is how many lines before[i:] and after[j:] have in common
	longest := make([][]int, len(before)+1)
	for i := range longest {
		longest[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			i, j = i+1, j+1
		case j == len(after) || i < len(before) && longest[i+1][j] >= longest[i][j+1]:
			all = append(all, "- "+before[i])
			i++
		default:
			all = append(all, "+ "+after[j])
			j++
		}
	}
	return all
}
