package nhc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/test/seed"
)

// pieces is what patterns are made of, and names to try them on.
var (
	globs = []string{"*", "?", "[a-n]", "[!0-4]", "[[:digit:]]", "[^1]", "[]x]", "node", "n", "gpu", "1", "01", "12", "-", ".", ".cluster", "!(", "@(", "+(", "*(", "?(", "|", ")", "[", "]", "\\", "[1-", "x"}
	words = []string{"^", "$", ".*", "n", "node", "[0-9]+", "[0-9]*", "(a|n)", "gpu", "1", "01", ".", "\\.", "-", "(", ")", "|", "+", "?", "{2}", "cluster", "[0-4]", "[^a]"}
	lists = []string{"*", "?", "!(1)", "@(a|b)", "+(?)", "*([^1])", "?(n)", "!(*)", "!(x|?)", "*(a)", "a", "n"}
	hosts = []string{"node1", "node01", "node12", "n1", "n123", "gpu-12", "gpu12.cluster", "node12.hpc.example", "a", "ab", "login", "x1y2"}
)

func made(of []string) (text string) {
	for range seed.IntN(5) {
		text += of[seed.IntN(len(of))]
	}
	return text
}

// NHC leaves globs and regular expressions to bash, so bash says what is right (scripts/common.nhc,
// mcheck_glob and mcheck_regexp).
func TestATargetMeansTheHostsThatBashSaysItDoes(t *testing.T) {
	const script = `while IFS=$'\t' read -r host kind target; do
	if [ $kind = glob ]; then [[ "$host" == $target ]]; else [[ "$host" =~ $target ]]; fi
	[ $? = 0 ]; echo $?
done 2>/dev/null`
	type question struct {
		host, target string
		not          bool
	}
	var asked []question
	var in bytes.Buffer
	for range 20000 {
		q := question{host: hosts[seed.IntN(len(hosts))], not: seed.IntN(4) == 0}
		kind, target := "glob", made(globs)
		if seed.IntN(3) == 0 {
			target = made(lists)
		}
		q.target = target
		if strings.HasPrefix(target, "!") {
			continue // it is NHC's own sign
		}
		if seed.IntN(3) == 0 {
			kind, target = "expression", made(words)
			q.target = "/" + target + "/"
		}
		if q.not {
			q.target = "!" + q.target
		}
		fmt.Fprintf(&in, "%s\t%s\t%s\n", q.host, kind, target)
		asked = append(asked, q)
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Stdin, cmd.Env = &in, []string{"LC_ALL=C"}
	out, err := cmd.Output()
	answers := strings.Fields(string(out))
	if err != nil || len(answers) != len(asked) {
		t.Fatalf("bash: %v, %d answers to %d questions", err, len(answers), len(asked))
	}
	sure := 0
	for i, q := range asked {
		got, known := Matches(q.host, q.target)
		if !known {
			if !got {
				t.Errorf("%q may be for %s, and is left out", q.target, q.host)
			}
			continue
		}
		sure++
		if want := (answers[i] == "0") != q.not; got != want {
			t.Errorf("%q matches %s: %t, bash says %t", q.target, q.host, got, want)
		}
	}
	if sure < len(asked)/2 {
		t.Errorf("of %d targets %d are read for sure", len(asked), sure)
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
		if got, sure := Matches(f[0], f[1]); got != (f[2] == "yes") || !sure {
			t.Errorf("%s has %s: %t (sure: %t), NHC says %s", f[1], f[0], got, sure, f[2])
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
