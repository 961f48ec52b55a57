package vm

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// actions are the system calls by which gresnet changes anything, or asks the
// kernel of anything that it acts on: netlink requests, the journal and the
// lease's files, mounts, device nodes, the guard, namespaces.
const actions = "bpf,sendto,write,mount,umount2,mknodat,mkdirat,unlinkat,renameat,fchmodat,chmod,lchown,setns,unshare,flock"

// Action is the n-th call of a system call in a thread; strace counts for each thread.
type Action struct {
	Call  string
	N     int
	Entry bool   // it writes a line of the journal
	What  string // its arguments and what came of it
}

func (d Action) String() string { return fmt.Sprintf("%s %d", d.Call, d.N) }

const TraceFile = "/tmp/strace.out"

// NoPreemption has Go's runtime send its threads no signals, for strace -E. strace stops a program
// at each. On a machine that is slow enough the next one is there before the program has gone on
// from the last, and it never gets on.
const NoPreemption = "GODEBUG=asyncpreemptoff=1"

// Traced runs the prolog or the epilog under strace with more of its options.
func Traced(t *testing.T, program, job, options string) (out string, code int) {
	t.Helper()
	trace := "strace -E " + NoPreemption + " -f -qq -e signal=none -o " + TraceFile + " -e trace=" + actions + " " + options
	text, _ := tryFor(longest, "rc=0; "+SlurmdEnv+job+" "+trace+" "+Repo()+"/bin/gresnet-"+program+" 2>&1 || rc=$?; echo \"exit $rc\"")
	out, rest, ok := strings.Cut(text, "exit ")
	if !ok {
		t.Fatalf("%s: %s", program, text)
	}
	fmt.Sscan(rest, &code)
	return out, code
}

// Calls returns the actions in a log of strace.
func Calls(log []byte) (all []Action) {
	count := map[string]int{} // of a call in a thread
	known := map[Action]bool{}
	// PID CALL(ARGUMENTS) = …; what was interrupted by another thread's call is resumed later.
	for _, m := range regexp.MustCompile(`(?m)^(\d+) +(\w+)\((.*)$`).FindAllStringSubmatch(string(log), -1) {
		thread, call := m[1], m[2]
		count[thread+call]++
		// A line of the journal begins with its checksum.
		entry := call == "write" && regexp.MustCompile(`^\d+, "[0-9a-f]{8} \{`).MatchString(m[3])
		// Of two threads' n-th calls strace disturbs the one that comes first.
		d := Action{Call: call, N: count[thread+call]}
		if !known[d] {
			known[d] = true
			all = append(all, Action{call, d.N, entry, m[3]})
		}
	}
	return all
}
