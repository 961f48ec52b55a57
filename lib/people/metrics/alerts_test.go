package metrics_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gresnet/lib/people/metrics"
	"gresnet/test/netnstest"
)

// promtool runs Prometheus' own checks, and installs them as root.
func promtool(t *testing.T, input []byte, arguments ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if out, err := exec.Command("../../../test/need", "prometheus").CombinedOutput(); err != nil {
			netnstest.Skip(t, "needs promtool: "+string(out))
		}
	}
	cmd := exec.Command("promtool", arguments...)
	cmd.Stdin = strings.NewReader(string(input))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "lint") {
		t.Errorf("promtool %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
}

const alerts = "../../../conf/gresnet-alerts.yml"

func TestPromtoolHasNothingToComplainOf(t *testing.T) {
	promtool(t, nil, "check", "rules", alerts)
	for _, text := range [][]byte{metrics.New().Text(), counted(t, 1).Text()} {
		promtool(t, text, "check", "metrics")
	}
}

func TestEachAlertIsRaisedForItsFaultAndNoneOnANodeThatWorks(t *testing.T) {
	promtool(t, nil, "test", "rules", "testdata/alerts.yml")
}

func TestTheAlertsAskForMetricsThatExistAndForValuesThatTheyHave(t *testing.T) {
	text, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	known := series()
	rules := regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllStringSubmatch(string(text), -1)
	if len(rules) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, rule := range rules {
		asked := regexp.MustCompile(`(gresnet_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(rule[1], -1)
		if len(asked) == 0 {
			t.Errorf("an alert asks for nothing of gresnet's: %s", rule[1])
		}
		for _, m := range asked {
			f, exists := known[m[1]]
			if !exists {
				t.Errorf("there is no metric %s: %s", m[1], rule[1])
			}
			for _, matcher := range regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
				checkMatcher(t, f, matcher[1], matcher[3])
			}
		}
	}
}
