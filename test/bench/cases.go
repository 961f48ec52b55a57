package main

import (
	"cmp"
	"fmt"
	"slices"
)

// testCase is a node and what is asked of it: the base case in all but one factor.
type testCase struct {
	Name       string `json:"name"`
	HCAs       int    `json:"hcas"` // of the node, and of all jobs together
	Mode       string `json:"mode"`
	Kind       string `json:"kind"` // roce or ib
	Routes     int    `json:"routes"`
	Interfaces int    `json:"interfaces"`      // that are no HCA's
	Jobs       int    `json:"jobs"`            // that start at once
	Train      int    `json:"train,omitempty"` // milliseconds from an interface's being brought up to its carrier
	Nodes      int    `json:"nodes,omitempty"` // of each job, which has an overlay then
	WayOut     bool   `json:"way_out,omitempty"`
	// What the node has besides, and no HCA has to do with.
	Neighbors int `json:"neighbors,omitempty"`
	Rules     int `json:"rules,omitempty"` // of nftables
	Mounts    int `json:"mounts,omitempty"`
	Processes int `json:"processes,omitempty"`

	rounds int // of floor and gresnet, if there is time
	others int // of these rounds, in how many the script takes part
	plain  int // and in how many the plain script does
	weight int // how long all its rounds take, of all cases
}

func base() testCase {
	return testCase{Name: "8 HCAs", HCAs: 8, Mode: "exclusive", Kind: "roce", Routes: 1, Jobs: 1, rounds: 15, others: 5, plain: 3, weight: 16}
}

// vary returns the base case with another value of one factor.
func vary(name string, f func(*testCase)) testCase {
	c := base()
	c.Name, c.others, c.plain, c.weight = name, 3, 0, 9
	f(&c)
	return c
}

// hcas returns the base case with another number of HCAs.
func hcas(n int) testCase {
	name := fmt.Sprintf("%d HCAs", n)
	if n == 1 {
		name = "1 HCA"
	}
	return vary(name, func(c *testCase) { c.HCAs, c.weight = n, n+1 })
}

func jobs(n int) testCase {
	return vary(fmt.Sprintf("%d jobs at once, 1 HCA each", n), func(c *testCase) { c.HCAs, c.Jobs, c.others, c.weight = n, n, 0, n+n/2 })
}

// one returns a case with an HCA.
func one() testCase {
	c := hcas(1)
	c.others, c.plain, c.weight = 5, 3, 5
	return c
}

// crowd returns a case of so many jobs that five rounds have hundreds of them.
func crowd(n int) testCase {
	c := jobs(n)
	c.rounds, c.weight = 5, n/2
	return c
}

// many returns a case whose rounds take seconds: one of them has the script, too.
func many(n int) testCase {
	c := hcas(n)
	c.others = 1
	return c
}

// trains returns a case whose links train for 2.5 s, which the floor waits for, too.
func trains(n int) testCase {
	c := hcas(n)
	c.Name += ", links train 2.5 s"
	c.Train, c.rounds, c.others, c.weight = 2500, 5, 0, n+1
	return c
}

// networked returns a job on so many nodes that has a network of its own between them, and a
// way out if it is to have one.
func networked(nodes int, wayOut bool) testCase {
	c := hcas(1)
	c.Nodes, c.WayOut, c.others = nodes, wayOut, 0
	c.Name = fmt.Sprintf("1 HCA, overlay of %d nodes", nodes)
	if wayOut {
		c.Name += ", way out"
	}
	return c
}

// network returns the cases of what a job's network costs beside its HCA.
func network() []testCase {
	cases := []testCase{hcas(1)}
	for _, nodes := range []int{2, 64, 1024} {
		cases = append(cases, networked(nodes, false), networked(nodes, true))
	}
	return cases
}

// load returns one HCA on nodes that have much of what no HCA has to do with: of each, a tenth and all.
func load() []testCase {
	cases := []testCase{hcas(1)}
	for _, f := range []struct {
		what string
		many int
		of   func(*testCase) *int
	}{
		{"interfaces", 1000, func(c *testCase) *int { return &c.Interfaces }},
		{"routes", 100000, func(c *testCase) *int { return &c.Routes }},
		{"neighbors", 10000, func(c *testCase) *int { return &c.Neighbors }},
		{"rules", 10000, func(c *testCase) *int { return &c.Rules }},
		{"mounts", 5000, func(c *testCase) *int { return &c.Mounts }},
		{"processes", 10000, func(c *testCase) *int { return &c.Processes }},
	} {
		for _, n := range []int{f.many / 10, f.many} {
			c := hcas(1)
			*f.of(&c) = n
			c.Name, c.others, c.weight = fmt.Sprintf("%d %s", n, f.what), 0, 3
			cases = append(cases, c)
		}
	}
	return cases
}

// full returns all cases. One job at once is 1 HCA, one unrelated route the base.
func full() []testCase {
	return []testCase{
		hcas(0), one(), hcas(2), hcas(4), base(), hcas(16), many(32), many(64),
		vary("8 HCAs, shared", func(c *testCase) { c.Mode = "shared" }),
		vary("8 HCAs, IPoIB", func(c *testCase) { c.Kind = "ib" }),
		vary("100 unrelated routes", func(c *testCase) { c.Routes = 100 }),
		vary("10000 unrelated routes", func(c *testCase) { c.Routes, c.weight = 10000, 15 }),
		vary("1000 unrelated interfaces", func(c *testCase) { c.Interfaces, c.weight = 1000, 15 }),
		trains(1), trains(4), trains(8),
		jobs(8), crowd(64),
	}
}

// short returns those that show most, a few times.
func short() []testCase {
	cases := []testCase{
		hcas(0), one(), base(),
		vary("8 HCAs, shared", func(c *testCase) { c.Mode = "shared" }),
		vary("8 HCAs, IPoIB", func(c *testCase) { c.Kind = "ib" }),
		vary("10000 unrelated routes", func(c *testCase) { c.Routes = 10000 }),
		jobs(8),
	}
	for i := range cases {
		c := &cases[i]
		c.rounds, c.weight = 3, 1
		c.others, c.plain = min(c.others, 1), min(c.plain, 1)
	}
	return cases
}

func casesOf(form string) ([]testCase, error) {
	switch form {
	case "full":
		return full(), nil
	case "short":
		return short(), nil
	case "network":
		return network(), nil
	case "load":
		return load(), nil
	}
	return nil, fmt.Errorf("unknown form %q: full, short, network or load", form)
}

// only returns the one case of a name.
func only(cases []testCase, name string) ([]testCase, error) {
	for _, c := range cases {
		if c.Name == name {
			return []testCase{c}, nil
		}
	}
	return nil, fmt.Errorf("the form has no case %q", name)
}

// deal gives each of two VMs its cases, so that both take the same time: the longest
// first, to the one that has less.
func deal(cases []testCase) (dealt [2][]testCase) {
	var has [2]int
	longest := slices.SortedStableFunc(slices.Values(cases), func(a, b testCase) int { return cmp.Compare(b.weight, a.weight) })
	for _, c := range longest {
		vm := 0
		if has[1] < has[0] {
			vm = 1
		}
		has[vm] += c.weight
		dealt[vm] = append(dealt[vm], c)
	}
	for _, list := range dealt {
		slices.SortStableFunc(list, func(a, b testCase) int { return place(cases, a.Name) - place(cases, b.Name) })
	}
	return dealt
}

// place returns where a case stands among all, the number of all if it is none of them.
func place(cases []testCase, name string) int {
	if i := slices.IndexFunc(cases, func(c testCase) bool { return c.Name == name }); i >= 0 {
		return i
	}
	return len(cases)
}
