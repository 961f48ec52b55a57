package slurm

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// actionDone are the actions of a prolog's trace: "  1.2 ms  do link ib0".
var actionDone = regexp.MustCompile(`(?m)^ *[0-9.]+ ms +do (.*)$`)

// actionPlanned are the steps of a plan: "  1  link ib0".
var actionPlanned = regexp.MustCompile(`(?m)^ *[0-9]+  (.*)$`)

// journaled prints the steps of a journal as a plan has them, in the order in which they were begun.
const journaled = `jq -r 'select(.entry) | [.kind, .data.settings.name // .data.name // empty] | join(" ")' <(sed 1d JOURNAL | cut -d' ' -f2-)`

func texts(found [][]string) string {
	var lines []string
	for _, m := range found {
		lines = append(lines, m[1])
	}
	return strings.Join(lines, "\n")
}

func TestThePlanIsWhatThePrologDoes(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	for name, c := range map[string]struct{ flags, config, environment string }{
		"two by policy": {"--gres nic:2", "[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = 2\n", ""},
		"one by index":  {"--gres nic:1(IDX:3)", "[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [3]\n", ""},
		"by GPUs":       {"--gpus 0,1", "[[hca]]\nindex = 0\nmatch = \"rdma=ibfake2\"\ngpus = [0]\n[[hca]]\nindex = 1\nmatch = \"rdma=ibfake0\"\ngpus = [1]\n", "SLURM_JOB_GPUS=0,1 "},
		"by the job":    {"--job 4811", "[slurm]\nsource = [\"node\"]\n", "SLURM_JOB_EXCLUSIVE=NODE "},
	} {
		t.Run(name, func(t *testing.T) {
			config := " --config " + vm.SiteConfig(t, c.config)
			plan := vm.Run(t, c.environment+vm.Repo()+"/bin/gresnet"+config+" plan "+quoteWords(c.flags))
			vm.Same(t, before)
			out := vm.Run(t, vm.SlurmdEnv+"SLURM_JOB_ID=4811 SLURM_NODELIST=node1 "+c.environment+vm.Repo()+"/bin/gresnet-prolog"+config+" --trace 2>&1")
			begun := vm.Run(t, strings.Replace(journaled, "JOURNAL", "/run/gresnet/jobs/4811/journal", 1))
			vm.Run(t, vm.SlurmdEnv+"SLURM_JOB_ID=4811 "+vm.Repo()+"/bin/gresnet-epilog")
			planned := texts(actionPlanned.FindAllStringSubmatch(plan, -1))
			if planned == "" || planned != strings.TrimSpace(begun) {
				t.Errorf("the plan has\n%s\nthe prolog began\n%s", planned, begun)
			}
			// A trace has them as they end.
			if done := texts(actionDone.FindAllStringSubmatch(out, -1)); vm.Sorted(done) != vm.Sorted(planned) {
				t.Errorf("the plan has\n%s\nthe prolog did\n%s\nof\n%s", planned, done, out)
			}
			vm.Same(t, before)
		})
	}
}

func quoteWords(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = vm.Quote(w)
	}
	return strings.Join(words, " ")
}

func TestScanShowsEveryHCALeasedOrNot(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	config := " --config " + vm.SiteConfig(t, "[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [1]\n")
	program := vm.Repo() + "/bin/gresnet" + config
	before := vm.Run(t, program+" scan --toml")
	vm.Run(t, vm.SlurmdEnv+"SLURM_JOB_ID=4812 "+vm.Repo()+"/bin/gresnet-prolog"+config)
	defer vm.Run(t, vm.SlurmdEnv+"SLURM_JOB_ID=4812 "+vm.Repo()+"/bin/gresnet-epilog")
	table := vm.Run(t, program+" scan")
	for _, line := range strings.Split(table, "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	leased := regexp.MustCompile(`(?m)^nic 1 .* 4812$`)
	if !leased.MatchString(table) || strings.Count(table, "\nnic ") != 4 {
		t.Errorf("the table is\n%s", table)
	}
	if during := vm.Run(t, program+" scan --toml"); during != before {
		t.Errorf("before the lease it printed\n%s\nduring it\n%s", before, during)
	}
	dir := filepath.Join(t.TempDir(), "gres")
	vm.Run(t, program+" scan --gres-files --gres-dir "+dir)
	lines := vm.Run(t, program+" scan --gres-conf --gres-dir "+dir)
	for _, name := range []string{"nic0", "nic1", "nic2", "nic3"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != 0 || !strings.Contains(lines, "Name=nic File="+dir+"/"+name+" ") {
			t.Errorf("placeholder %s: %v; gres.conf has\n%s", name, err, lines)
		}
	}
}

func TestCheckKnowsAGoodSiteFromABadOne(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	vm.WriteConfig(t, nicsAlone)
	const program = "/bin/gresnet"
	good := vm.Run(t, vm.Repo()+program+" check")
	t.Logf("it says\n%s", good)
	if !strings.Contains(good, "ok       gres.conf: 4 nic\n") || !strings.Contains(good, "ok       plugstack.conf: required ") {
		t.Errorf("of a good site it says\n%s", good)
	}
	vm.Run(t, "cp -r /etc/slurm /tmp/slurm; sed -i 's|^PrologFlags=.*|PrologFlags=Serial|; s|=/etc/slurm|=/tmp/slurm|' /tmp/slurm/slurm.conf; : >/tmp/slurm/plugstack.conf")
	bad, err := vm.Try("SLURM_CONF=/tmp/slurm/slurm.conf " + vm.Repo() + program + " check")
	if err == nil || !strings.Contains(bad, "error    slurm.conf: PrologFlags ") || !strings.Contains(bad, "error    plugstack.conf: ") {
		t.Errorf("of a bad site it says %v\n%s", err, bad)
	}
}
