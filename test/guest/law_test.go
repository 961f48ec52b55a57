package guest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// deeds are the system calls by which gresnet changes anything, or asks the
// kernel of anything that it acts on: netlink requests, the journal and the
// lease's files, mounts, device nodes, namespaces.
const deeds = "sendto,write,mount,umount2,mknodat,mkdirat,unlinkat,renameat,fchmodat,fchownat,lchown,chmod,setns,unshare,flock,truncate,ftruncate"

// traced runs the prolog or the epilog under strace, which does something at
// the n-th of the deeds.
func traced(t *testing.T, program, inject string, n int, job string) (out string, code int, happened bool) {
	t.Helper()
	trace := fmt.Sprintf("strace -f -qq -o /tmp/strace.out -e trace=%s -e inject=%s:%s:when=%d", deeds, deeds, inject, n)
	text, _ := try("rc=0; " + slurmdEnv + job + " " + trace + " " + repo() + "/bin/gresnet-" + program + " 2>&1 || rc=$?; echo \"exit $rc\"")
	out, rest, ok := strings.Cut(text, "exit ")
	if !ok {
		t.Fatalf("%s: %s", program, text)
	}
	fmt.Sscan(rest, &code)
	log, _ := os.ReadFile("/tmp/strace.out")
	return out, code, strings.Contains(string(log), "INJECTED") || strings.Contains(string(log), "SIGKILL")
}

// stride is how many of the deeds a test goes on by: all of them when it may
// take long, and a part that differs from mode to mode otherwise.
func stride() int {
	if os.Getenv("GRESNET_TEST") == "long" {
		return 1
	}
	return 5
}

// anHCAOfEachKind maps GPU 0 to an InfiniBand and GPU 1 to a RoCE HCA.
func anHCAOfEachKind(t *testing.T) {
	t.Helper()
	slurm(t)
	names := hcas(t)
	writeConfig(t, strings.NewReplacer("HCA0", names[0], "HCA1", names[len(names)-1]).Replace(gpuConfig))
	t.Cleanup(func() { writeConfig(t, config) })
}

const lawJob = "SLURM_JOB_ID=900030 SLURM_JOB_GPUS=0,1"

func TestAPrologThatIsKilledAnywhereIsUndoneByTheEpilog(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	kills := 0
	for n := 1; ; n += stride() {
		_, _, killed := traced(t, "prolog", "signal=KILL", n, lawJob)
		if out, code := byHand(t, "epilog", lawJob); code != 0 || out != "" {
			t.Fatalf("epilog after kill %d: exit %d: %s", n, code, out)
		}
		same(t, before)
		if t.Failed() {
			t.Fatalf("after kill -9 at deed %d", n)
		}
		if !killed {
			break
		}
		kills++
	}
	t.Logf("%d kills of the prolog", kills)
}

func TestAnEpilogThatIsKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	kills := 0
	for n := 1; ; n += stride() {
		if out, code := byHand(t, "prolog", lawJob); code != 0 || out != "" {
			t.Fatalf("prolog: exit %d: %s", code, out)
		}
		_, _, killed := traced(t, "epilog", "signal=KILL", n, lawJob)
		if out, code := byHand(t, "epilog", lawJob); code != 0 || out != "" {
			t.Fatalf("epilog after kill %d: exit %d: %s", n, code, out)
		}
		same(t, before)
		if t.Failed() {
			t.Fatalf("after kill -9 at deed %d", n)
		}
		if !killed {
			break
		}
		kills++
	}
	t.Logf("%d kills of the epilog", kills)
}

func TestAPrologOfWhichAnyOneDeedFailsUndoesItself(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	faults := 0
	for n := 1; ; n += stride() {
		out, code, failed := traced(t, "prolog", "error=EIO", n, lawJob)
		switch {
		case !failed:
			if code != 0 {
				t.Fatalf("nothing failed, and yet exit %d: %s", code, out)
			}
		case code == 1:
			if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || !strings.Contains(lines[1], ": hint: ") {
				t.Errorf("wanted one line and its hint:\n%s", out)
			}
			same(t, before)
		case code != 0:
			t.Errorf("exit %d: %s", code, out)
		}
		if out, code := byHand(t, "epilog", lawJob); code != 0 || out != "" {
			t.Fatalf("epilog after fault %d: exit %d: %s", n, code, out)
		}
		same(t, before)
		if t.Failed() {
			log, _ := os.ReadFile("/tmp/strace.out")
			t.Fatalf("with a fault at deed %d:\n%s", n, log)
		}
		if !failed {
			break
		}
		faults++
	}
	t.Logf("%d faults", faults)
}

func TestTheProgramsAreSmall(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	for _, program := range []string{"prolog", "epilog"} {
		kilobytes := maxRSS(t, program, lawJob)
		if kilobytes > 20<<10 {
			t.Errorf("gresnet-%s took %d KiB of memory at its peak, wanted at most 20 MiB", program, kilobytes)
		}
	}
	same(t, before)
}
