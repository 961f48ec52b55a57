package slurm

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// setup puts its own line last of those with Prolog and first of those with Epilog, and check wants it
// there: lib/admin/setup, plan.go.
func TestSlurmRunsSeveralLinesInTheirOrderOrHeedsTheLastAlone(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	const conf = "/etc/slurm/slurm.conf"
	for _, way := range []string{"prolog", "epilog"} {
		text := "#!/bin/sh\n[ -e /run/gresnet/jobs/$SLURM_JOB_ID/env ] && echo lease >>/tmp/lines-" + way + " || echo none >>/tmp/lines-" + way + "\n"
		if err := os.WriteFile("/usr/local/sbin/line-"+way, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ours := vm.Repo() + "/bin/gresnet-"
	const prolog, epilog = "Prolog=/usr/local/sbin/line-prolog", "Epilog=/usr/local/sbin/line-epilog"
	vm.Run(t, "rm -f /tmp/lines-*; cp "+conf+" /tmp/one-line.conf; sed -i 's|^Prolog=|"+prolog+"\\n&|; s|^Epilog=.*|&\\n"+epilog+"|' "+conf)
	found := vm.Run(t, "{ "+vm.Repo()+"/bin/gresnet check 2>/dev/null || :; } | grep -E '^error .*: it has 2 lines with .*heeds the last one alone' || :")
	vm.Run(t, "cp /tmp/one-line.conf "+conf)
	if regexp.MustCompile(` (2[0-3]\.|24\.0[0-4])`).MatchString(vm.Run(t, "slurmd -V")) {
		if strings.Count(found, "\n") != 2 {
			t.Errorf("check says %q", found)
		}
		vm.Same(t, before)
		return
	}
	if found != "" {
		t.Errorf("check says %q", found)
	}
	t.Cleanup(func() { vm.RestartSlurm(t) })
	vm.RestartSlurm(t, "--conf $'"+prolog+"\\nProlog="+ours+"prolog'", "--conf $'Epilog="+ours+"epilog\\n"+epilog+"'")
	out, err := lookAsJob("--gres=nic:1")
	hasRun(t, "ibfake", out, err)
	vm.Eventually(t, "the site's epilog has run", func() bool { _, err := os.Stat("/tmp/lines-epilog"); return err == nil })
	for way, want := range map[string]string{"prolog": "none\n", "epilog": "none\n"} {
		if got, err := os.ReadFile("/tmp/lines-" + way); err != nil || string(got) != want {
			t.Errorf("the site's %s found %q: %v", way, got, err)
		}
	}
	vm.Same(t, before)
}
