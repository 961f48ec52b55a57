package slurm

import (
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const siteProlog = "/usr/local/sbin/site-prolog"

// A site's own prolog that has OURS somewhere, and what it makes of it.
var siteScripts = []struct {
	name, text string
	kind       string
}{
	{"the last line", "exec OURS", passes},
	{"|| exit", "OURS || exit $?\necho done", passes},
	{"a loop over a folder", "for f in /usr/local/lib/site.d/*; do $f || exit 1; done", passes},
	{"run-parts", "run-parts --exit-on-error /usr/local/lib/site.d", passes},
	{". lib.sh", ". /usr/local/lib/site-lib.sh\ngive_hcas || exit 1", passes},
	{"exit 0 on the next line", "OURS\nexit 0", swallows},
	{"; exit 0", "OURS; exit 0", swallows},
	{"logger after it", "OURS\nlogger done || :", swallows},
	{"if !, then exit 0", "if ! OURS; then exit 0; fi", swallows},
	{"| tee", "OURS | tee /tmp/site-prolog.out", swallows},
	{"|| true", "OURS || true", swallows},
	{"echo alone", "echo OURS", misses},
	{"after exit 0", "exit 0\nexec OURS", misses},
	{"a killed one", "(kill -STOP $BASHPID; exec OURS) &\nkill -9 $!\nwait\nexit 0", misses},
}

const (
	passes   = "passes"   // its exit code is gresnet-prolog's
	swallows = "swallows" // it ends with 0
	misses   = "misses"   // gresnet-prolog does not run to its end
)

func writeSiteProlog(t *testing.T, text string) {
	t.Helper()
	text = "#!/bin/bash\n" + strings.ReplaceAll(text, "OURS", vm.Repo()+"/bin/gresnet-prolog") + "\n"
	if err := os.WriteFile(siteProlog, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// nicsAlone has no job's HCAs hang on its GPUs: the VM's GPUs are files, which check says.
var nicsAlone = strings.Replace(vm.Config, `"gpu", `, "", 1)

// checkSays fails unless check says that of Prolog, or nothing at all.
func checkSays(t *testing.T, text string) {
	t.Helper()
	out, _ := vm.Try(vm.Repo() + "/bin/gresnet check | grep -E '^(error|warning) .*: (Prolog at|.*Prolog=)'")
	if !strings.Contains(out, text) || text == "" && out != "" {
		t.Errorf("check says %q, wanted %q", out, text)
	}
}

// lookAsJob runs a step that says what its job has.
func lookAsJob(options string) (string, error) {
	return vm.TryAs("alice", "srun "+options+" bash -c 'echo has run with hcas=$GRESNET_HCAS'")
}

// refusedWith fails unless the step has ended with one line of gresnet's that has the text.
func refusedWith(t *testing.T, text, out string, err error) {
	t.Helper()
	if err == nil || strings.Contains(out, "has run") || strings.Count(out, "error: gresnet: job ") != 1 || !strings.Contains(out, text) {
		t.Errorf("wanted a step that fails with one line, %q: %v\n%s", text, err, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	inService(t)
}

func hasRun(t *testing.T, want, out string, err error) {
	t.Helper()
	if err != nil || !strings.Contains(out, "has run with hcas="+want) {
		t.Errorf("wanted a step with hcas=%s: %v\n%s", want, err, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
}

func TestAJobWhoseSiteSwallowsTheExitCodeOrNeverCallsFailsWithOneLine(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.Run(t, "mkdir -p /usr/local/lib/site.d && printf '#!/bin/sh\\nexec "+vm.Repo()+"/bin/gresnet-prolog\\n' >/usr/local/lib/site.d/00-gresnet && chmod 755 /usr/local/lib/site.d/00-gresnet")
	vm.Run(t, "echo 'give_hcas() { "+vm.Repo()+"/bin/gresnet-prolog; }' >/usr/local/lib/site-lib.sh")
	writeSiteProlog(t, "exec OURS")
	vm.RestartSlurm(t, "--conf Prolog="+siteProlog)
	t.Cleanup(func() { vm.RestartSlurm(t) })
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	for _, c := range siteScripts {
		t.Run(c.name, func(t *testing.T) {
			vm.WriteConfig(t, nicsAlone)
			writeSiteProlog(t, c.text)
			out, err := lookAsJob("--gres=nic:1")
			if c.kind == misses {
				refusedWith(t, "gresnet: job ", out, err)
				if c.name == "a killed one" {
					return // its lease may have begun, which says so itself
				}
				if !strings.Contains(out, "gresnet-prolog did not run to its end on this node") {
					t.Errorf("the reason is another:\n%s", out)
				}
				checkSays(t, "gresnet-prolog did not run to its end")
				out, err := lookAsJob("")
				hasRun(t, "\n", out, err)
				return
			}
			hasRun(t, "ibfake", out, err)
			checkSays(t, "")
			if c.kind == passes {
				return
			}
			vm.WriteConfig(t, "[slurm]\nno_such_key = 1\n")
			for _, options := range []string{"--gres=nic:1", ""} {
				out, err := lookAsJob(options)
				refusedWith(t, "gresnet-prolog failed, and "+siteProlog+" went on: ", out, err)
				if !strings.Contains(out, "no_such_key") {
					t.Errorf("the reason lacks what is wrong:\n%s", out)
				}
			}
			checkSays(t, "gresnet-prolog failed, and "+siteProlog+" went on")
		})
	}
	vm.WriteConfig(t, vm.Config)
	vm.Same(t, before)
}
