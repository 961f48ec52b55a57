package slurm_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gresnet/lib/slurm"
)

func TestHostlist(t *testing.T) {
	for list, names := range map[string]struct{ in, out []string }{
		"node1":                        {[]string{"node1"}, []string{"node", "node11", "node01", "ode1", ""}},
		"node[1-3,7],gpu05":            {[]string{"node1", "node2", "node3", "node7", "gpu05"}, []string{"node4", "node0", "node01", "gpu5", "node17", "node[1-3,7]"}},
		"n[08-11]":                     {[]string{"n08", "n09", "n10", "n11"}, []string{"n8", "n12", "n008", "n011"}},
		"n[8-11]":                      {[]string{"n8", "n9", "n10", "n11"}, []string{"n08", "n12"}},
		"n[098-102]":                   {[]string{"n098", "n100", "n102"}, []string{"n98", "n0100", "n103"}},
		"n[1-2]-ib":                    {[]string{"n1-ib", "n2-ib"}, []string{"n1", "n3-ib", "n1-ibx"}},
		"rack[0-1]n[01-16]":            {[]string{"rack0n01", "rack1n16"}, []string{"rack2n01", "rack0n1", "rack0n17", "rack0"}},
		"r[1-12][0-3]":                 {[]string{"r10", "r123", "r13"}, []string{"r14", "r1", "r130"}},
		"[1-3]":                        {[]string{"2"}, []string{"4", ""}},
		"a,b,c[1],d.example.com":       {[]string{"a", "b", "c1", "d.example.com"}, []string{"c", "d"}},
		"x[1-2]c[0-3]s[0-9]b[0]n[0-3]": {[]string{"x1c3s9b0n3"}, []string{"x1c3s9b0n4", "x1c3s9b0"}},
		"n[1000000000-1000000003]":     {[]string{"n1000000002"}, []string{"n100000000"}},
		"a, b\tc,,":                    {[]string{"a", "b", "c"}, []string{"", ","}},
		"":                             {nil, []string{""}},
	} {
		l, err := slurm.ParseHostlist(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		for _, n := range names.in {
			if !l.Contains(n) {
				t.Errorf("%q has no %q", list, n)
			}
		}
		for _, n := range names.out {
			if l.Contains(n) {
				t.Errorf("%q has %q", list, n)
			}
		}
	}
	for list, want := range map[string]string{
		"n[1-3":           `parse hostlist "n[1-3": "n[1-3" has no closing bracket`,
		"n1-3]":           `parse hostlist "n1-3]": "n1-3]" is no host name`,
		"n[3-1]":          `parse hostlist "n[3-1]": "3-1" is no range of up to 65536 numbers`,
		"n[]":             `parse hostlist "n[]": "" is no range of up to 65536 numbers`,
		"n[1,]":           `parse hostlist "n[1,]": "" is no range of up to 65536 numbers`,
		"n[000x333]":      `parse hostlist "n[000x333]": "000x333" is no range of up to 65536 numbers`,
		"n[0-9999999999]": `parse hostlist "n[0-9999999999]": "0-9999999999" is no range of up to 65536 numbers`,
		"n[[1]]":          `parse hostlist "n[[1]]": "[1" is no range of up to 65536 numbers`,
	} {
		_, err := slurm.ParseHostlist(list)
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", list, err, want)
		}
	}
}

func TestHostlistIsSpelledOutInItsOrder(t *testing.T) {
	for list, want := range map[string]string{
		"node1":                  "node1",
		"a[1-3,07-09]b,c":        "a1b a2b a3b a07b a08b a09b c",
		"r[0-1]n[08-10]":         "r0n08 r0n09 r0n10 r1n08 r1n09 r1n10",
		"[1-2]":                  "1 2",
		"c,a,c":                  "c a c",
		"10.0.0.[9-11]":          "10.0.0.9 10.0.0.10 10.0.0.11",
		"n[098-101]-ib.example,": "n098-ib.example n099-ib.example n100-ib.example n101-ib.example",
		"a[1-2]b[1-2]c[1-2]":     "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2",
		"n[0-99999]":             "",
		"n[0-999999999]":         "",
		"n[1-40],m[1-40]":        "",
		"n[1-9][1-9][1-9]":       "",
		strings.Repeat("a", 300): "",
		"n[1-50],m[1-8],o[1-7]":  "",
	} {
		names, err := spelled(list)
		if got := strings.Join(names, " "); got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v; want %q", list, got, err, want)
		}
	}
	if names, err := spelled("n[1-50],m[1-8],o[1-6]"); err != nil || len(names) != 64 {
		t.Errorf("64 names of 64 at most: %d, %v", len(names), err)
	}
}

func spelled(list string) ([]string, error) {
	l, err := slurm.ParseHostlist(list)
	if err != nil {
		return nil, err
	}
	return l.Names(64)
}

// spell spells a hostlist out, as Slurm does: the plain way, to hold the other against.
func spell(list string) []string {
	names := []string{""}
	var all []string
	for rest := list; rest != ""; {
		switch rest[0] {
		case ',':
			all, names, rest = append(all, names...), []string{""}, rest[1:]
		case '[':
			inside, after, _ := strings.Cut(rest[1:], "]")
			var longer []string
			for _, n := range names {
				for _, r := range strings.Split(inside, ",") {
					first, last, _ := strings.Cut(r+"-"+r, "-")
					last, _, _ = strings.Cut(last, "-")
					low, _ := strconv.Atoi(first)
					high, _ := strconv.Atoi(last)
					for i := low; i <= high; i++ {
						longer = append(longer, n+fmt.Sprintf("%0*d", len(first), i))
					}
					if len(longer) > 2000 {
						return nil
					}
				}
			}
			names, rest = longer, after
		default:
			end := strings.IndexAny(rest, ",[")
			if end < 0 {
				end = len(rest)
			}
			for i := range names {
				names[i] += rest[:end]
			}
			rest = rest[end:]
		}
	}
	return append(all, names...)
}

func FuzzHostlist(f *testing.F) {
	f.Add("node[1-3,7],gpu05", "node2")
	f.Add("r[1-12][0-3]x", "r120x")
	f.Add("n[08-11]-ib,m", "n10-ib")
	f.Add("[0-1][0-1][0-1][00-01]", "01001")
	f.Add("n[1-2", "n[1")
	f.Fuzz(func(t *testing.T, list, name string) {
		l, err := slurm.ParseHostlist(list)
		if err != nil || tooLong(list) || strings.ContainsAny(list, " \t\n") || strings.Contains(list, "-]") || strings.Contains(list, "-,") {
			return
		}
		all := slices.DeleteFunc(spell(list), func(name string) bool { return name == "" })
		if all == nil {
			return
		}
		longest := 0
		for _, n := range all {
			longest = max(longest, len(n))
		}
		names, err := l.Names(len(all))
		slices.Sort(names) // in which order: test/slurmref asks Slurm
		slices.Sort(all)
		if longest <= 255 && (err != nil || !slices.Equal(names, all)) {
			t.Errorf("%q is spelled out as %q, %v; want %q", list, names, err, all)
		}
		if names, err := l.Names(len(all) - 1); err == nil && len(all) > 0 {
			t.Errorf("%q has more than %d names, and is spelled out as %q", list, len(all)-1, names)
		}
		if l.Contains(name) != slices.Contains(all, name) {
			t.Errorf("%q has %q: %t, spelt out: %t", list, name, l.Contains(name), slices.Contains(all, name))
		}
		for _, n := range all {
			if len(n) <= 255 && !l.Contains(n) {
				t.Errorf("%q has no %q", list, n)
			}
		}
	})
}

// tooLong tells of ranges that are not worth spelling out.
func tooLong(list string) bool {
	run := 0
	for _, c := range []byte(list) {
		run++
		if c < '0' || c > '9' {
			run = 0
		}
		if run > 3 {
			return true
		}
	}
	return len(list) > 200
}
