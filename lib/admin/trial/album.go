package trial

import (
	"regexp"
	"strings"
	"time"

	"gresnet/lib/admin/picture"
	"gresnet/lib/base/poll"
)

// album has the picture of the node from before the trial, with which all later ones are compared.
type album struct {
	before   string
	restless map[string]bool // lines that change by themselves, without their numbers
}

// begin takes two pictures. What differs between these changes by itself.
func (a *album) begin() (unread, restless []string) {
	first, err := picture.Take()
	a.before, _ = picture.Take()
	a.restless = map[string]bool{}
	for _, line := range compare(first, a.before) {
		a.restless[kind(line[2:])] = true
		restless = append(restless, line)
	}
	if err != nil {
		unread = strings.Split(strings.TrimSpace(err.Error()), "\n")
	}
	return unread, restless
}

// differences compares the node now with what it was before, until nothing differs or the kernel has had
// its time.
func (a *album) differences() (lines []string) {
	// The only error would be the look's, and that has none.
	_, _ = new(poll.Budget).Until(poll.Picture, func() (bool, error) {
		now, _ := picture.Take() // what it lacks, it lacked before
		lines = nil
		for _, line := range compare(a.before, now) {
			if !a.restless[kind(line[2:])] {
				lines = append(lines, line)
			}
		}
		return len(lines) == 0, nil
	})
	return lines
}

var number = regexp.MustCompile(`\d+`)

// kind returns a fact without its numbers.
func kind(fact string) string { return number.ReplaceAllString(fact, "#") }

// compare returns the lines that only one of two texts has: "- " before those of the first, "+ " before those
// of the second. Of texts with the same lines in another order it returns those that moved.
func compare(before, after string) (lines []string) {
	if before == after {
		return nil
	}
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	lines = append(marked("- ", was, is), marked("+ ", is, was)...)
	if len(lines) > 0 {
		return lines
	}
	for i := range was {
		if was[i] != is[i] {
			lines = append(lines, "- "+was[i]+" (in another order)", "+ "+is[i]+" (in another order)")
		}
	}
	return lines
}

// marked returns the lines of a text that another one lacks.
func marked(mark string, lines, other []string) (lacking []string) {
	count := map[string]int{}
	for _, l := range other {
		count[l]++
	}
	for _, l := range lines {
		if count[l]--; count[l] < 0 {
			lacking = append(lacking, mark+l)
		}
	}
	return lacking
}

// awaitLinks waits until the interfaces of HCAs have the carriers that they had, and returns how long that
// took.
func (t *Trial) awaitLinks(group []*hca) time.Duration {
	began := time.Now()
	_, _ = new(poll.Budget).Until(poll.Ports, func() (bool, error) {
		for _, h := range group {
			for _, name := range h.interfaces {
				if l := h.before.Links[name]; l != nil && l.Carrier && !hasCarrier(name) {
					return false, nil
				}
			}
		}
		return true, nil
	})
	return time.Since(began)
}
