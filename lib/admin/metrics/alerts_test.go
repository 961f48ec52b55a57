package metrics_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gresnet/lib/admin/metrics"
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
	for _, text := range [][]byte{metrics.New().Text(), counted(t, 1).Text(), fill(t, metrics.NewRunning(), 1).Text()} {
		promtool(t, text, "check", "metrics")
	}
}

func TestEachAlertIsRaisedForItsFaultAndNoneOnANodeThatWorks(t *testing.T) {
	promtool(t, nil, "test", "rules", "testdata/alerts.yml")
}

// The rules that docs/operators.md has for a site's own dashboards: on a node in exclusive mode, where a job has the
// HCA and node_exporter does not see it, and on one in shared mode, where both count.
func TestTheRulesForASitesOwnDashboardsGoOnWithItsSeriesAndNameTheJob(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile("(?s)```\n(groups:\n.*?)```").FindSubmatch(text)
	if rules == nil {
		t.Fatal("docs/operators.md has no rules")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/rules.yml", rules[1], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/test.yml", []byte(`rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'node_infiniband_port_data_transmitted_bytes_total{instance="free",device="mlx5_0",port="1"}', values: '0+60x20'}
      - {series: 'node_infiniband_port_data_transmitted_bytes_total{instance="shared",device="mlx5_0",port="1"}', values: '0+120x20'}
      - {series: 'gresnet_running_job_sent_bytes_total{instance="shared",jobid="7",user="ann",device="mlx5_0",port="1"}', values: '0+120x20'}
      - {series: 'gresnet_running_job_sent_bytes_total{instance="exclusive",jobid="8",user="bob",device="mlx5_0",port="1"}', values: '0+180x20'}
    promql_expr_test:
      - expr: infiniband:sent_bytes:rate5m
        eval_time: 15m
        exp_samples:
          - {labels: 'infiniband:sent_bytes:rate5m{instance="free",device="mlx5_0",port="1"}', value: 1}
          - {labels: 'infiniband:sent_bytes:rate5m{instance="shared",device="mlx5_0",port="1"}', value: 2}
          - {labels: 'infiniband:sent_bytes:rate5m{instance="exclusive",device="mlx5_0",port="1"}', value: 3}
      - expr: infiniband:sent_bytes_of_jobs:rate5m
        eval_time: 15m
        exp_samples:
          - {labels: 'infiniband:sent_bytes_of_jobs:rate5m{instance="shared",device="mlx5_0",port="1",jobid="7",user="ann"}', value: 2}
          - {labels: 'infiniband:sent_bytes_of_jobs:rate5m{instance="exclusive",device="mlx5_0",port="1",jobid="8",user="bob"}', value: 3}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "test", "rules", dir+"/test.yml")
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
