package guest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// deeds are the system calls by which gresnet changes anything, or asks the
// kernel of anything that it acts on: netlink requests, the journal and the
// lease's files, mounts, device nodes, the guard, namespaces.
const deeds = "bpf,sendto,write,mount,umount2,mknodat,mkdirat,unlinkat,renameat,fchmodat,chmod,lchown,setns,unshare,flock"

// deed is the n-th call of a system call in a thread; strace counts for each thread.
type deed struct {
	call string
	n    int
	note bool   // it writes a line of the journal
	what string // its arguments and what came of it
}

func (d deed) String() string { return fmt.Sprintf("%s %d", d.call, d.n) }

const traceFile = "/tmp/strace.out"

// traced runs the prolog or the epilog under strace with more of its options.
func traced(t *testing.T, program, job, options string) (out string, code int) {
	t.Helper()
	trace := "strace -f -qq -e signal=none -o " + traceFile + " -e trace=" + deeds + " " + options
	text, _ := try("rc=0; " + slurmdEnv + job + " " + trace + " " + repo() + "/bin/gresnet-" + program + " 2>&1 || rc=$?; echo \"exit $rc\"")
	out, rest, ok := strings.Cut(text, "exit ")
	if !ok {
		t.Fatalf("%s: %s", program, text)
	}
	fmt.Sscan(rest, &code)
	return out, code
}

// deedsOf runs a program once and tells at which of its deeds one is to fail: a few
// for the short tests; for the long ones each line of the journal and the deed that
// follows it; with GRESNET_TEST=all every one.
func deedsOf(t *testing.T, program, job string) []deed {
	t.Helper()
	if out, code := traced(t, program, job, ""); code != 0 {
		t.Fatalf("%s: exit %d: %s", program, code, out)
	}
	log, err := os.ReadFile(traceFile)
	if err != nil {
		t.Fatal(err)
	}
	return pick(t, calls(log))
}

// calls are the deeds in a log of strace.
func calls(log []byte) (all []deed) {
	count := map[string]int{} // of a call in a thread
	known := map[deed]bool{}
	// PID CALL(ARGUMENTS) = …; what was interrupted by another thread's call is resumed later.
	for _, m := range regexp.MustCompile(`(?m)^(\d+) +(\w+)\((.*)$`).FindAllStringSubmatch(string(log), -1) {
		thread, call := m[1], m[2]
		count[thread+call]++
		// A line of the journal begins with its checksum.
		note := call == "write" && regexp.MustCompile(`^\d+, "[0-9a-f]{8} \{`).MatchString(m[3])
		// Of two threads' n-th calls strace disturbs the one that comes first.
		d := deed{call: call, n: count[thread+call]}
		if !known[d] {
			known[d] = true
			all = append(all, deed{call, d.n, note, m[3]})
		}
	}
	return all
}

// pick picks the deeds at which a test disturbs.
func pick(t *testing.T, all []deed) (part []deed) {
	t.Helper()
	if len(all) < 20 {
		t.Fatalf("only %d deeds: %v", len(all), all)
	}
	switch os.Getenv("GRESNET_TEST") {
	case "all":
		return all
	case "long":
		return atNotes(t, all)
	}
	const some = 6
	for i := range some {
		part = append(part, all[i*len(all)/some])
	}
	return part
}

// atNotes are the deeds that write the journal, each with what is done next.
func atNotes(t *testing.T, all []deed) (part []deed) {
	t.Helper()
	for i, d := range all {
		if d.note || i > 0 && all[i-1].note {
			part = append(part, d)
		}
	}
	if len(part) < 10 {
		t.Fatalf("only %d of %d deeds have to do with the journal", len(part), len(all))
	}
	return part
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

// must runs a program that has to succeed without a word.
func must(t *testing.T, program, job string) {
	t.Helper()
	if out, code := byHand(t, program, job); code != 0 || out != "" {
		t.Fatalf("%s: exit %d: %s", program, code, out)
	}
}

func TestAPrologOfWhichAnyOneDeedFailsUndoesItself(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	deeds := deedsOf(t, "prolog", lawJob)
	must(t, "epilog", lawJob)
	faults := 0
	for _, d := range deeds {
		out, code := traced(t, "prolog", lawJob, fmt.Sprintf("-e inject=%s:error=EIO:when=%d", d.call, d.n))
		log, err := os.ReadFile(traceFile)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "(INJECTED)") {
			faults++
		}
		switch lines := strings.Split(strings.TrimSpace(out), "\n"); {
		case runtimesOwn(log):
		case code == 1 && (len(lines) != 2 || !strings.Contains(lines[1], ": hint: ")):
			t.Errorf("wanted one line and its hint:\n%s", out)
		case code == 1:
			same(t, before)
		case code != 0:
			t.Errorf("exit %d: %s", code, out)
		}
		must(t, "epilog", lawJob)
		if same(t, before); t.Failed() {
			t.Fatalf("with a fault at %s:\n%s", d, log)
		}
	}
	// Go may deal its work to threads in another way than before, and the n-th call never come.
	if faults*2 < len(deeds) {
		t.Errorf("only %d of %d runs were disturbed", faults, len(deeds))
	}
	t.Logf("%d faults", faults)
}

// runtimesOwn tells that the fault has met the write by which the Go runtime wakes
// its own threads. No kernel fails that, and a runtime that cannot do so ends on the
// spot, which then is one more kill.
func runtimesOwn(log []byte) bool {
	return regexp.MustCompile(`write\(\d+, "\\1(\\0){7}", 8\) += -1 EIO .*INJECTED`).Match(log)
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
