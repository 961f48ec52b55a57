package host

import (
	"fmt"

	"gresnet/lib/lease/plan"
	"gresnet/lib/link"
)

// nameChildren gives the interfaces that gresnet makes for a job names of their own. The first has
// the name of the interface below it, as one that moves to the job has.
func nameChildren(hcas []plan.HCA) {
	taken := map[string]bool{}
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			taken[s.Settings.Name] = taken[s.Settings.Name] || !h.Keep
		}
	}
	for _, h := range hcas {
		for _, c := range h.Children {
			name := c.Name
			for n := 1; taken[name]; n++ {
				suffix := fmt.Sprintf("_%d", n)
				name = c.Name[:min(len(c.Name), link.LongestName-len(suffix))] + suffix
			}
			c.Name, c.Link.Name, taken[name] = name, name, true
		}
	}
}
