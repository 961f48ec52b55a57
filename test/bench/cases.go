package main

import (
	"fmt"
	"time"
)

// testCase is a node and what is asked of it: the base case in all but one factor.
type testCase struct {
	Name       string `json:"name"`
	HCAs       int    `json:"hcas"` // of the node, and of all jobs together
	Mode       string `json:"mode"`
	Kind       string `json:"kind"` // roce or ib
	Routes     int    `json:"routes"`
	Interfaces int    `json:"interfaces"` // that are no HCA's
	Jobs       int    `json:"jobs"`       // that start at once

	rounds int // of floor and gresnet, if there is time
	others int // of these rounds, in how many the script takes part
	plain  int // and in how many the plain script does
	weight int // its part of the time that there is
}

func base() testCase {
	return testCase{Name: "8 HCAs", HCAs: 8, Mode: "exclusive", Kind: "roce", Routes: 1, Jobs: 1, rounds: 15, others: 5, plain: 3, weight: 20}
}

// vary is the base case with another value of one factor.
func vary(name string, f func(*testCase)) testCase {
	c := base()
	c.Name, c.others, c.plain, c.weight = name, 3, 0, 4
	f(&c)
	return c
}

// hcas is the base case with another number of HCAs.
func hcas(n int) testCase {
	name := fmt.Sprintf("%d HCAs", n)
	if n == 1 {
		name = "1 HCA"
	}
	return vary(name, func(c *testCase) { c.HCAs = n })
}

func jobs(n int) testCase {
	return vary(fmt.Sprintf("%d jobs at once, 1 HCA each", n), func(c *testCase) { c.HCAs, c.Jobs, c.others = n, n, 0 })
}

// one is a case with an HCA.
func one() testCase {
	c := hcas(1)
	c.others, c.plain, c.weight = 5, 3, 7
	return c
}

// long is a case whose rounds take seconds.
func long(c testCase, rounds, others, weight int) testCase {
	c.rounds, c.others, c.weight = rounds, others, weight
	return c
}

// budget is how long a form's cases may take all together.
func budget(form string) time.Duration {
	if form == "full" {
		return 13 * time.Minute
	}
	return 140 * time.Second
}

// full are all cases. One job at once is 1 HCA, one unrelated route the base.
func full() []testCase {
	return []testCase{
		hcas(0), one(), hcas(2), hcas(4), base(), hcas(16),
		long(hcas(32), 15, 1, 10), long(hcas(64), 7, 1, 12),
		vary("8 HCAs, shared", func(c *testCase) { c.Mode = "shared" }),
		vary("8 HCAs, IPoIB", func(c *testCase) { c.Kind = "ib" }),
		vary("100 unrelated routes", func(c *testCase) { c.Routes = 100 }),
		vary("10000 unrelated routes", func(c *testCase) { c.Routes = 10000 }),
		vary("1000 unrelated interfaces", func(c *testCase) { c.Interfaces = 1000 }),
		jobs(8), long(jobs(64), 5, 0, 12),
	}
}

// short are those that show most, a few times.
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

func casesOf(form, only string) ([]testCase, error) {
	forms := map[string]func() []testCase{"full": full, "short": short}
	if forms[form] == nil {
		return nil, fmt.Errorf("unknown form %q: full or short", form)
	}
	cases := forms[form]()
	if only == "" {
		return cases, nil
	}
	for _, c := range cases {
		if c.Name == only {
			return []testCase{c}, nil
		}
	}
	return nil, fmt.Errorf("the %s form has no case %q", form, only)
}
