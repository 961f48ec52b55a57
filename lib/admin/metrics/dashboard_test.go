package metrics_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/admin/metrics"
)

// queries returns all that the dashboard asks Prometheus.
func queries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../conf/gresnet-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		all = append(all, v.Definition)
	}
	return all
}

// series returns the metrics by the name that a query has for them.
func series() map[string]metrics.Family {
	all := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		if f.Kind != metrics.Histogram {
			all[f.Name] = f
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[f.Name+suffix] = f
		}
	}
	return all
}

func TestTheDashboardAsksForMetricsThatExistAndForAllOfThem(t *testing.T) {
	known, asked := series(), map[string]bool{}
	for _, query := range queries(t) {
		for _, m := range regexp.MustCompile(`(gresnet_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(query, -1) {
			f, exists := known[m[1]]
			if !exists {
				t.Errorf("there is no metric %s: %s", m[1], query)
			}
			asked[m[1]] = true
			for _, matcher := range regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
				checkMatcher(t, f, matcher[1], matcher[3])
			}
		}
		for _, m := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
			for _, label := range strings.Split(m[1], ", ") {
				checkGrouping(t, query, label)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !asked[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// checkMatcher wants a label of the family, and values that it may have.
func checkMatcher(t *testing.T, f metrics.Family, label, values string) {
	t.Helper()
	if label == "instance" { // which Prometheus adds
		return
	}
	i := slices.IndexFunc(f.Labels, func(l metrics.Label) bool { return l.Name == label })
	if i < 0 {
		t.Errorf("%s has no label %s", f.Name, label)
		return
	}
	for _, value := range strings.Split(values, "|") {
		if !slices.Contains(f.Labels[i].Values, value) {
			t.Errorf("%s of %s is never %q", label, f.Name, value)
		}
	}
}

// checkGrouping wants a label of one of the query's metrics.
func checkGrouping(t *testing.T, query, label string) {
	t.Helper()
	if label == "instance" || label == "le" {
		return
	}
	for name, f := range series() {
		if strings.Contains(query, name+"{") && slices.ContainsFunc(f.Labels, func(l metrics.Label) bool { return l.Name == label }) {
			return
		}
	}
	t.Errorf("nothing that is asked has the label %s: %s", label, query)
}

func TestTheOperatorsGuideHasEachMetric(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range metrics.Families() {
		labels := make([]string, 0, len(f.Labels))
		for _, l := range f.Labels {
			labels = append(labels, "`"+l.Name+"`")
		}
		row := "| `" + f.Name + "` | " + strings.Join(labels, " ") + " | "
		if !strings.Contains(strings.ReplaceAll(string(text), "|  |", "| |"), strings.ReplaceAll(row, "|  |", "| |")) {
			t.Errorf("docs/operators.md does not have %s", row)
		}
	}
}
