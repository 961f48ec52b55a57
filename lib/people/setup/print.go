package setup

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// teller says once what each kind of line is for.
func teller(w io.Writer) func(why string) {
	told := map[string]bool{"": true}
	return func(why string) {
		if !told[why] {
			fmt.Fprintf(w, "      # %s\n", why)
			told[why] = true
		}
	}
}

// PrintController shows what the controller's files must have, for a person.
func (p Plan) PrintController(w io.Writer) {
	if len(p.Controller) == 0 {
		return
	}
	tell := teller(w)
	fmt.Fprintln(w, "\nthe controller, and all other hosts, need the same in slurm.conf:")
	for _, line := range p.Controller {
		fmt.Fprintf(w, "  %s\n", line)
		if file, text, is := strings.Cut(line, ".conf: "); is {
			tell(whyOf(Edit{Path: file + ".conf"}, text)) // Print has explained others
		}
	}
}

// added returns the lines that an edit adds.
func (e Edit) added() (lines []string) {
	for _, line := range difference(slices.Collect(strings.Lines(string(e.Before))), slices.Collect(strings.Lines(string(e.After)))) {
		if text, is := strings.CutPrefix(line, "+ "); is {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines
}

// Print shows what a plan changes, for a person.
func (p Plan) Print(w io.Writer) {
	tell := teller(w)
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
