package setup

import (
	"bytes"
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
	tell := teller(w)
	if len(p.Scripts) > 0 {
		fmt.Fprintf(w, "\nfirst copy to all nodes, where they do nothing without gresnet: %s\n", strings.Join(p.Scripts, ", "))
	}
	if len(p.Install) > 0 {
		fmt.Fprintln(w, "\nfirst have all nodes have these scripts, which do nothing on a host without gresnet:")
		for _, command := range p.Install {
			fmt.Fprintf(w, "  %s\n", command)
		}
	}
	if len(p.Theirs) > 0 {
		what := "these files are other hosts', too, and need these lines:"
		if p.Configless {
			what = "the controller's files, which slurmd gets from there, need these lines:"
		}
		fmt.Fprintln(w, "\n"+what)
	}
	for _, line := range p.Theirs {
		fmt.Fprintf(w, "  %s\n", line)
		file, text, _ := strings.Cut(line, ": ")
		tell(whyOf(Edit{Path: file}, text))
	}
	if len(p.Controller) > 0 {
		fmt.Fprintln(w, "\nthe controller, and all other hosts, need the same in slurm.conf:")
	}
	for _, line := range p.Controller {
		fmt.Fprintf(w, "  %s\n", line) // Print has explained them
	}
}

// isScript tells whether an edit makes a script of gresnet's own.
func (e Edit) isScript() bool { return bytes.HasPrefix(e.After, []byte("#!")) }

// added returns the lines that an edit adds.
func (e Edit) added() (lines []string) {
	for _, line := range e.difference() {
		if text, is := strings.CutPrefix(line, "+ "); is {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines
}

// difference returns the lines that an edit takes out, after "- ", and those that it adds, after "+ ".
func (e Edit) difference() (lines []string) {
	for _, line := range difference(slices.Collect(strings.Lines(string(e.Before))), slices.Collect(strings.Lines(string(e.After)))) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
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
		case e.Placeholder:
			fmt.Fprintf(w, "%s (a device node without a driver)\n", e.Path)
		case e.isScript():
			fmt.Fprintf(w, "%s (a script)\n", e.Path)
			tell(whyOf(e, ""))
			continue
		case !e.There:
			fmt.Fprintf(w, "%s (a new file)\n", e.Path)
		default:
			fmt.Fprintf(w, "%s\n", e.Path)
		}
		tell(whyOf(e, ""))
		for _, line := range e.difference() {
			fmt.Fprintf(w, "  %s\n", line)
			if added, is := strings.CutPrefix(line, "+ "); is {
				tell(whyOf(e, strings.TrimSpace(added)))
			}
		}
	}
}

// difference returns what of two lists of lines is not in both, in their order: the lines of the first after
// "- ", those of the second after "+ ".
func difference(before, after []string) (all []string) {
	mark := func(lines []string) {
		for _, l := range lines {
			all = append(all, "+ "+l)
		}
	}
	for _, l := range before {
		at := slices.Index(after, l)
		if at < 0 {
			all = append(all, "- "+l)
			continue
		}
		mark(after[:at])
		after = after[at+1:]
	}
	mark(after)
	return all
}
