package slurmref

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/slurm"
	"gresnet/test/seed"
)

func hostlist(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		for range 1 + r.IntN(5) {
			b.WriteString(pick(r, "n", "rack", "-ib", ".a.example", "10.0.0.", "007", "/dev/x", "é", "", "_", "9"))
			if r.IntN(2) == 0 {
				b.WriteString("[" + ranges(r) + "]")
			}
		}
		b.WriteString(pick(r, ",", ",", ",,", " ", "\t", ", "))
	}
	text := []byte(b.String())
	if r.IntN(4) == 0 {
		text[r.IntN(len(text))] = pick(r, "[", "]", ",", "-", "0", "x")[0]
	}
	return string(text)
}

func ranges(r *rand.Rand) string {
	var list []string
	for range 1 + r.IntN(3) {
		list = append(list, pick(r, "1", "01", "1-3", "08-11", "8-11", "1-003", "3-1", "5-", "", "-1", "1--2", "1-2-3",
			"1000000000-1000000002", "0000000001", "999999999999999998-999999999999999999", "0-99999", "a", "00", "0-1"))
	}
	return strings.Join(list, ",")
}

// strange tells of what gresnet refuses and Slurm takes, for whatever it takes it.
func strange(list string) bool {
	depth := 0
	for _, c := range list {
		switch {
		case c == '[' && depth > 0, c == ']' && depth == 0, strings.ContainsRune(" \t", c) && depth > 0:
			return true
		case c == '[':
			depth++
		case c == ']':
			depth--
		}
	}
	return depth > 0 || strings.Count(list, "[") > 2 // it leaves out names with a range in the first brackets that is none
}

// longNumber tells of a number that Slurm takes for another one, or for so many that it never ends.
func longNumber(list string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(list, func(c rune) bool { return c < '0' || c > '9' }), func(n string) bool { return len(n) > 18 })
}

func TestHostlistsAreSpelledOutAsSlurmDoes(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			ref, r := Start(t, suite), seed.Rand()
			const most = 10000
			read := 0
			for range most {
				list := hostlist(r)
				if longNumber(list) {
					continue
				}
				want, wanted := ref.Hosts(list)
				if wanted {
					read++
				}
				sameHosts(t, ref, suite, list, want, wanted)
				if t.Failed() {
					return
				}
			}
			t.Logf("%d lists, of which Slurm reads %d", most, read)
		})
	}
}

func sameHosts(t *testing.T, ref *Ref, suite, list string, want []string, wanted bool) {
	t.Helper()
	l, err := slurm.ParseHostlist(list)
	if err != nil {
		if wanted && !strange(list) {
			t.Errorf("%q: %v; Slurm has %q", list, err, want)
		}
		return
	}
	if !wanted {
		// Slurm 22.05 takes nothing after the last bracket.
		if suite != "bookworm" || !strings.Contains(list, "]") {
			t.Errorf("Slurm refuses %q", list)
		}
		return
	}
	const many = 200000
	names, err := l.Names(many)
	if err != nil && len(want) <= many || err == nil && !slices.Equal(names, want) {
		t.Errorf("%q is %.200q, %v; Slurm has %.200q", list, names, err, want)
	}
	for _, name := range slices.Concat(names[:min(len(names), 5)], []string{"n1", "n01", "rack8"}) {
		if has := slices.Contains(names, name); l.Contains(name) != has {
			t.Errorf("%q has %q: %t; it is spelled out with it: %t", list, name, l.Contains(name), has)
		}
	}
}
