package nhc

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestATargetMeansTheHostsThatBashSaysItDoes(t *testing.T) {
	targets := map[string]bool{
		"*": true, "!*": false, "n1": false, "node1": true, "!node1": false, "node[1-3]": true, "!n*": false, "@(a|node1)": true, "*!(1)": true,
		"/": false, "//": true, "/ode/": true, "/^ode/": false, "!/^n(ode)+1$/": false, "/(/": false, "{node[1-3]}": true, "!{node[2-3]}": true,
		"$(touch target)": false, "`touch target`": false, "\\n*": true, "-e": false, "[": false,
	}
	t.Chdir(t.TempDir())
	asked := slices.Sorted(maps.Keys(targets))
	for i, got := range matches("node1", asked) {
		if got != targets[asked[i]] {
			t.Errorf("%s: %t", asked[i], got)
		}
	}
	if _, err := os.Stat("target"); err == nil {
		t.Error("bash has run what is in a target")
	}
	if got := matches("node1", []string{strings.Repeat("n", 1<<20), "{a1}", "!x"}); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("without an answer of bash's: %t", got)
	}
}

// testdata/lists.txt has what mcheck of nhc 1.4.3 said.
func TestAListOfNodesHasThoseThatNHCFindsInIt(t *testing.T) {
	text, err := os.ReadFile("testdata/lists.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if got := matches(f[0], f[1:2]); got[0] != (f[2] == "yes") {
			t.Errorf("%s has %s: %t, NHC says %s", f[1], f[0], got[0], f[2])
		}
	}
}

// testdata/nhc.checks has the checks that nhc_load_conf of nhc 1.4.3 took from testdata/nhc.conf.
func TestTheChecksOfAHostAreThoseThatNHCTakes(t *testing.T) {
	conf, err := os.ReadFile("testdata/nhc.conf")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/nhc.checks")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(string(want), "== "), "\n== ") {
		host, checks, _ := strings.Cut(part, "\n")
		var got []string
		for _, l := range Lines(string(conf), host) {
			got = append(got, l.Check)
		}
		if want := strings.Split(strings.TrimSuffix(checks, "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%s has %q\nNHC says %q", host, got, want)
		}
	}
}

func TestALineHasTheNumberOfItsBegin(t *testing.T) {
	for _, l := range Lines("\n* || a \\\n b\n* || c\n", "n") {
		if want := map[string]int{"a  b": 2, "c": 4}[l.Check]; l.Number != want {
			t.Errorf("%q is in line %d, wanted %d", l.Check, l.Number, want)
		}
	}
}

func TestNHCsFilesAreThoseThatItsSettingsName(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	host := "node1.cluster.example"
	for name, c := range map[string]struct {
		program string
		files   fstest.MapFS
		want    Files
	}{
		"nothing set":       {"/usr/sbin/nhc", nil, Files{"/etc/nhc/nhc.conf", "/etc/nhc/scripts", host}},
		"by the wrapper":    {"/usr/sbin/nhc-wrapper", nil, Files{"/etc/nhc/nhc.conf", "/etc/nhc/scripts", host}},
		"another name":      {"/usr/sbin/nhc-cron", nil, Files{"/etc/nhc/nhc-cron.conf", "/etc/nhc/scripts", host}},
		"on Debian":         {"/usr/sbin/nhc", fstest.MapFS{"etc/debian_version": file(""), "etc/default/nhc": file("CONFFILE=/opt/nhc.conf # ours\n")}, Files{"/opt/nhc.conf", "/etc/nhc/scripts", host}},
		"on RHEL":           {"/usr/sbin/nhc", fstest.MapFS{"etc/sysconfig/nhc": file("#HOSTNAME=x\nexport HOSTNAME=\"n1\"\n CONFDIR=/opt/nhc\n")}, Files{"/opt/nhc/nhc.conf", "/opt/nhc/scripts", "n1"}},
		"another's setting": {"/usr/sbin/nhc", fstest.MapFS{"etc/default/nhc-cron": file("CONFDIR=/opt\n")}, Files{"/etc/nhc/nhc.conf", "/etc/nhc/scripts", host}},
	} {
		root := fstest.MapFS{"proc/sys/kernel/hostname": file(host + "\n")}
		for f, data := range c.files {
			root[f] = data
		}
		if got := Find(root, c.program); got != c.want {
			t.Errorf("%s: %+v, wanted %+v", name, got, c.want)
		}
	}
}

func TestCommandsAreTheirWordsWithoutQuotes(t *testing.T) {
	for text, want := range map[string][][]string{
		`check_hw_ib 100 mlx5_0:1 # the first`:          {{"check_hw_ib", "100", "mlx5_0:1"}},
		`A=1 check_x "a b" 'c d'; ! check_y && check_z`: {{"check_x", "a b", "c d"}, {"check_y"}, {"check_z"}},
		`if [ -d /x ]; then check_a; fi`:                {{"[", "-d", "/x", "]"}, {"check_a"}},
		`export MARK_OFFLINE=0 || true`:                 {{"true"}},
		`B=ib0`:                                         nil,
		`check_a $(ibstat -l) a#b ""`:                   {{"check_a", "$"}, {"ibstat", "-l"}, {"a#b", ""}},
	} {
		if got := Commands(text); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, wanted %q", text, got, want)
		}
	}
}

func TestFunctionsAreReadFromAllScripts(t *testing.T) {
	root := fstest.MapFS{
		"etc/nhc/scripts/a.nhc":  {Data: []byte("# x\nfunction check_a() {\n  if true; then\n    look\n  fi\n}\nB=1\n")},
		"etc/nhc/scripts/b.nhc":  {Data: []byte("look () {\n  ibstat\n}\n")},
		"etc/nhc/scripts/README": {Data: []byte("check_c() {\n}\n")},
	}
	got := Functions(root, "/etc/nhc/scripts")
	if len(got) != 2 || !strings.Contains(got["check_a"], "look") || !strings.Contains(got["look"], "ibstat") || strings.Contains(got["check_a"], "B=1") {
		t.Errorf("%q", got)
	}
}
