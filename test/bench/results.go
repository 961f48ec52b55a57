package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// results are what was measured in one run.
type results struct {
	Form   string     `json:"form"`
	Kernel string     `json:"kernel"`
	Cases  []measured `json:"cases"`
}

// measured is a case with the milliseconds that each tool took for each way:
// "gresnet in", "floor out". "floor udev" is how long after it udev was at work.
type measured struct {
	testCase
	Samples samples `json:"samples"`
	// Lost is what a tool that does not restore the node leaves other than it was.
	Lost map[string][]string `json:"lost,omitempty"`
	Peak int64               `json:"peak_kib"` // the most memory that one of gresnet's programs had
}

func (m measured) rounds() int { return len(m.Samples["gresnet in"]) }

// median returns the median of what a tool took for a way; false if it took no part.
func (m measured) median(tool, way string) (float64, bool) {
	list := slices.Sorted(slices.Values(m.Samples[tool+" "+way]))
	n := len(list)
	if n == 0 {
		return 0, false
	}
	return (list[(n-1)/2] + list[n/2]) / 2, true
}

// ratio returns a tool's median, divided by the floor's.
func (m measured) ratio(tool, way string) (float64, bool) {
	have, took := m.median(tool, way)
	floor, there := m.median("floor", way)
	return have / floor, took && there
}

func readResults(file string) (r results, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", file, err)
	}
	return r, nil
}

func (r results) write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// peak returns the most memory that one of gresnet's programs had in any case, in KiB.
func (r results) peak() (most int64) {
	for _, m := range r.Cases {
		most = max(most, m.Peak)
	}
	return most
}

// merge returns what two VMs have measured of one form, in its order.
func merge(a, b results) (results, error) {
	if a.Form != b.Form || a.Kernel != b.Kernel {
		return results{}, fmt.Errorf("merge a %s form of kernel %s with a %s one of %s", a.Form, a.Kernel, b.Form, b.Kernel)
	}
	all, err := casesOf(a.Form)
	if err != nil {
		return results{}, err
	}
	a.Cases = slices.Concat(a.Cases, b.Cases)
	slices.SortStableFunc(a.Cases, func(x, y measured) int { return place(all, x.Name) - place(all, y.Name) })
	return a, nil
}
