package metrics_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// lint reads a text as Prometheus does, knowing nothing of the program that
// wrote it, and holds it to what `promtool check metrics` asks of names.
func lint(text string) (problems []string) {
	complain := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	if !strings.HasSuffix(text, "\n") {
		complain("the last line has no end")
	}
	comment := regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	sample := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)+\})? (\S+)$`)
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	kinds, helped, seen := map[string]string{}, map[string]bool{}, map[string]float64{}
	current := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := comment.FindStringSubmatch(line); m != nil {
			if m[1] == "HELP" {
				helped[m[2]] = true
				current = m[2]
			} else if kinds[m[2]] != "" || m[2] != current {
				complain("line %d: TYPE of %s is not where it belongs", i+1, m[2])
			} else {
				kinds[m[2]] = m[3]
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			complain("line %d: %q is no sample", i+1, line)
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			complain("line %d: %q is no value", i+1, m[3])
		}
		name := m[1]
		if kinds[current] == "histogram" {
			name = part.ReplaceAllString(name, "")
		}
		if name != current {
			complain("line %d: %s stands below %s", i+1, m[1], current)
		}
		if _, twice := seen[m[1]+m[2]]; twice {
			complain("line %d: %s is there twice", i+1, m[1]+m[2])
		}
		seen[m[1]+m[2]] = value
	}
	for name, kind := range kinds {
		if !helped[name] {
			complain("%s has no HELP", name)
		}
		if counter := kind == "counter"; counter != strings.HasSuffix(name, "_total") {
			complain("%s is a %s", name, kind)
		}
		if kind == "histogram" && !strings.HasSuffix(name, "_seconds") {
			complain("%s does not say its unit", name)
		}
	}
	return append(problems, histograms(kinds, seen)...)
}

// histograms looks at the buckets of all histograms.
func histograms(kinds map[string]string, seen map[string]float64) (problems []string) {
	bucket := regexp.MustCompile(`^(.*)_bucket\{(.*?),?le="([^"]*)"\}$`)
	buckets := map[string]map[float64]float64{}
	for series, value := range seen {
		m := bucket.FindStringSubmatch(series)
		if m == nil || kinds[m[1]] != "histogram" {
			continue
		}
		bound, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s has no bound", series))
		}
		key := m[1] + "_count"
		if m[2] != "" {
			key += "{" + m[2] + "}"
		}
		if buckets[key] == nil {
			buckets[key] = map[float64]float64{}
		}
		buckets[key][bound] = value
	}
	for count, of := range buckets {
		total, there := of[math.Inf(1)]
		if all, counted := seen[count]; !there || !counted || all != total {
			problems = append(problems, fmt.Sprintf("%s is not the last bucket", count))
		}
		for bound, below := range of {
			for other, more := range of {
				if other > bound && more < below {
					problems = append(problems, fmt.Sprintf("%s: the bucket to %v has less than that to %v", count, other, bound))
				}
			}
		}
	}
	return problems
}
