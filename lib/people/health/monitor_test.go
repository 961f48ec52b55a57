package health_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/people/health"
)

func TestMonitorsAreFoundByWhatRunsIsInstalledOrIsConfigured(t *testing.T) {
	process := func(name, uid string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Name:\t" + name + "\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t" + uid + "\t0\t0\t0\n")}
	}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for what, c := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"nothing":                          {fstest.MapFS{"proc/1/status": process("systemd", "0"), "proc/self/status": process("gpud", "0")}, ""},
		"root's process":                   {fstest.MapFS{"proc/812/status": process("gpud", "0")}, "gpud runs as process 812"},
		"a name that the kernel cuts":      {fstest.MapFS{"proc/9/status": process("nic-health-moni", "0")}, "NVSentinel runs as process 9"},
		"a system account's":               {fstest.MapFS{"proc/9/status": process("prometheus-node", "114")}, "node_exporter runs as process 9"},
		"nobody's":                         {fstest.MapFS{"proc/9/status": process("node_exporter", "65534")}, "node_exporter runs as process 9"},
		"a user's":                         {fstest.MapFS{"proc/9/status": process("gpud", "1000")}, ""},
		"one that has ended":               {fstest.MapFS{"proc/9/status": text("")}, ""},
		"a service":                        {fstest.MapFS{"etc/systemd/system/gpud.service": text("")}, "gpud is installed as gpud.service"},
		"a service and its process":        {fstest.MapFS{"lib/systemd/system/netdata.service": text(""), "proc/77/status": process("netdata", "201")}, "Netdata runs as process 77"},
		"a plugin that is configured":      {fstest.MapFS{"etc/telegraf/telegraf.conf": text("[agent]\n[[inputs.infiniband]]\n")}, "Telegraf is configured in /etc/telegraf/telegraf.conf"},
		"a plugin in a file of its own":    {fstest.MapFS{"etc/telegraf/telegraf.d/ib.conf": text("  [[inputs.infiniband]]\n")}, "Telegraf is configured in /etc/telegraf/telegraf.d/ib.conf"},
		"a plugin that is not configured":  {fstest.MapFS{"etc/telegraf/telegraf.conf": text("# [[inputs.infiniband]]\n")}, ""},
		"a plugin that is configured once": {fstest.MapFS{"etc/telegraf/telegraf.conf": text("[[inputs.infiniband]]\n"), "etc/telegraf/telegraf.d/ib.conf": text("[[inputs.infiniband]]\n")}, "Telegraf is configured in /etc/telegraf/telegraf.conf"},
	} {
		var got []string
		for _, f := range (health.Node{Root: c.files}).Find() {
			got = append(got, f.Name+" "+f.How)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, wanted %q", what, got, c.want)
		}
	}
}

func TestEachMonitorHasARecipe(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### What other programs lose\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range health.Monitors {
		if !regexp.MustCompile(`(?m)^\| ([^|]*; )?` + regexp.QuoteMeta(m.Name) + `\b`).MatchString(section) {
			t.Errorf("docs/operators.md has no row for %s", m.Name)
		}
	}
}
