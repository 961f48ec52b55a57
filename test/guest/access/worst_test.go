package access

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/test/crowd"
	"gresnet/test/guest/vm"
)

// listen makes ids of RDMA-CM that listen at all addresses, each at a port of its own, by write(2) as
// rdma/rdma_user_cm.h and librdmacm have it.
func listen(fd, ids int) error {
	const (
		createID, doListen, bind = 0, 7, 20
		portSpaceTCP             = 0x0106
		queuePairRC              = 2
	)
	for i := range ids {
		answer := make([]byte, 4)
		create := make([]byte, 24)
		binary.NativeEndian.PutUint64(create[8:], uint64(uintptr(unsafe.Pointer(&answer[0]))))
		binary.NativeEndian.PutUint16(create[16:], portSpaceTCP)
		create[18] = queuePairRC
		if err := ucma(fd, createID, create, len(answer)); err != nil {
			return fmt.Errorf("create an id: %w", err)
		}
		address := make([]byte, 8+128)
		copy(address, answer)
		binary.NativeEndian.PutUint16(address[4:], unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(address[8:], unix.AF_INET)
		binary.BigEndian.PutUint16(address[10:], uint16(20000+i))
		if err := ucma(fd, bind, address, 0); err != nil {
			return fmt.Errorf("bind to all addresses: %w", err)
		}
		if err := ucma(fd, doListen, append(answer, 8, 0, 0, 0), 0); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}

// number returns a number of the environment.
func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	use(err)
	return n
}

// gathers has a job's user gather a crowd around an HCA of the job's, until the test ends, and returns
// its process group.
func gathers(t *testing.T, c crowd.Crowd, job, node string) string {
	t.Helper()
	pid := heldWith(t, "crowd GRESNET_CROWD="+c.String(), "alice", "/proc/1/ns/net", job, node)
	vm.Run(t, "while kill -0 "+pid+" 2>/dev/null; do sleep 0.1; done")
	t.Cleanup(func() { disperses(t, pid) })
	return pid
}

// disperses ends a crowd by its process group.
func disperses(t *testing.T, pid string) {
	t.Helper()
	vm.Run(t, "kill -9 -- -"+pid+" 2>/dev/null || true; while kill -0 -- -"+pid+" 2>/dev/null; do sleep 0.1; done")
}

// timed runs a program as slurmd would, and returns what it says, its exit code and how long it took.
func timed(t *testing.T, program, job string) (string, int, time.Duration) {
	t.Helper()
	begun := time.Now()
	out, code := vm.ByHand(t, program, job)
	return out, code, time.Since(begun)
}

const bobs = " SLURM_JOB_UID=1001 SLURM_JOB_USER=bob SLURM_JOB_GID=1001"

// A user's processes keep an HCA whose job has ended. Who looks for them looks through all that the
// user has open, and meanwhile another user's jobs come and go on other HCAs.
func TestAJobOnAnotherHCADoesNotWaitForALookAtWhatUsersHaveOpen(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hasPolicies(t, fmt.Sprintf("\n[access]\nguard = \"off\"\n[deadline]\nprolog = %q\nepilog = %q\n", vm.Slow(20*time.Second), vm.Slow(20*time.Second)))
	before := vm.Picture(t)
	first := vm.ByIndex(t)[0]
	vm.Must(t, "prolog", inPartition(900070, "first"))
	group := gathers(t, crowd.Crowd{Open: 4000, Share: 1500, Copies: 300, Spaces: 30}, "900070", vm.UverbsOf(t, first))
	took := map[string]time.Duration{}
	out, code, time1 := timed(t, "epilog", inPartition(900070, "first"))
	took["epilog of the job whose HCA is kept"] = time1
	if code != 0 {
		t.Errorf("the epilog of the job whose processes keep the HCA: exit %d: %s", code, out)
	}
	begun := time.Now()
	waits := vm.Begin(t, "prolog", inPartition(900071, "first")+bobs)
	vm.Eventually(t, "the other prolog is at work", func() bool {
		_, err := os.Stat("/run/gresnet/jobs/900071/journal")
		return err == nil
	})
	for _, program := range []string{"prolog", "epilog"} {
		out, code, time3 := timed(t, program, inPartition(900074, "second")+bobs)
		took[program+" of a job with another HCA"] = time3
		if code != 0 {
			t.Errorf("%s of a job with another HCA: exit %d: %s", program, code, out)
		}
	}
	if out, code := waits(); code != 0 {
		t.Errorf("prolog of a job that needs the kept HCA: exit %d: %s", code, out)
	}
	took["prolog of a job that needs the kept HCA, at most"] = time.Since(begun)
	env := vm.Run(t, "cat /run/gresnet/jobs/900071/env")
	if !regexp.MustCompile(`GRESNET_REFUSED=.*\(pid \d+\) of user 1000`).MatchString(env) {
		t.Errorf("the job that needs the kept HCA has the lease\n%s", env)
	}
	vm.Must(t, "epilog", inPartition(900071, "first")+bobs)
	begun = time.Now()
	if said := status(t); !strings.Contains(said, "of user 1000") || strings.Count(said, "is quarantined:") != 1 {
		t.Errorf("status:\n%s", said)
	}
	took["status"] = time.Since(begun)
	for what, time := range took {
		t.Logf("%s: %.1f s", what, time.Seconds())
	}
	disperses(t, group)
	isFree(t)
	vm.Same(t, before)
}

// A server that listens at all addresses has an id on each HCA of the node, in whatever namespace
// (cma.c:cma_listen_on_all). It is no use of the HCA.
func TestAServerOfRDMACMKeepsNoHCAFromJobs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	hasPolicies(t, "[[policy]]\npartition = \"rest\"\ncount = 3\n[access]\nrdma_cm = true\n")
	before := vm.Picture(t)
	for _, servers := range []int{1, 2000} {
		vm.Must(t, "prolog", inPartition(900070, "first"))
		pid := heldWith(t, fmt.Sprintf("listen GRESNET_SERVERS=%d", servers), "alice", "/run/gresnet/jobs/900070/netns", "900070", "rdma_cm")
		ids := func(where string) string {
			return vm.Run(t, "nsenter --net="+where+" rdma -j resource show | jq -c '[.[].cm_id]'")
		}
		if had := ids("/proc/1/ns/net"); strings.Count(had, strconv.Itoa(servers)) < 3 {
			t.Errorf("with %d servers the HCAs have %s ids", servers, had)
		}
		if said := status(t); strings.Contains(said, "quarantined") {
			t.Errorf("with %d servers of a job's status says\n%s", servers, said)
		}
		for range 2 {
			for _, program := range []string{"prolog", "epilog"} {
				out, code, took := timed(t, program, inPartition(900074, "rest")+bobs)
				t.Logf("with %d servers a %s takes %.1f s", servers, program, took.Seconds())
				if code != 0 || out != "" {
					t.Fatalf("%s: exit %d: %s", program, code, out)
				}
				claims := strings.Fields(vm.Claims(t, "900074"))
				if program == "prolog" && len(claims) != 3 {
					t.Errorf("another user's job that needs three HCAs has %q", claims)
				}
			}
		}
		vm.Must(t, "epilog", inPartition(900070, "first"))
		isFree(t) // though the server is still there
		ends(t, pid)
		isFree(t)
	}
	vm.Same(t, before)
}

// How long programs take for a job of another user's while a user does the worst that is known here. It
// asserts no time; docs/security.md says what bounds each search.
func TestHowLongAPrologAndAnEpilogTakeWhileAUserDoesTheWorst(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Long)
	hasPolicies(t, "\n[access]\nguard = \"off\"\nrdma_cm = true\n")
	before := vm.Picture(t)
	first := vm.ByIndex(t)[0]
	const runs = 3
	var table strings.Builder
	measure := func(what string) {
		fmt.Fprintf(&table, "\n%-60s", what)
		took := map[string][]time.Duration{}
		for range runs {
			for _, program := range []string{"prolog", "epilog"} {
				out, code, time1 := timed(t, program, inPartition(900074, "second")+bobs)
				if code != 0 {
					t.Errorf("%s: %s: exit %d: %s", what, program, code, out)
				}
				if claims := strings.Fields(vm.Claims(t, "900074")); program == "prolog" && len(claims) != 1 {
					t.Errorf("%s: a job that needs another HCA has %q", what, claims)
				}
				took[program] = append(took[program], time1)
			}
		}
		begun := time.Now()
		status(t)
		took["status"] = []time.Duration{time.Since(begun)}
		for _, program := range []string{"prolog", "epilog", "status"} {
			fmt.Fprintf(&table, " %s %5.1f s", program, slices.Max(took[program]).Seconds())
		}
	}
	measure("nobody else")
	vm.Must(t, "prolog", inPartition(900070, "first"))
	namespace := "/run/gresnet/jobs/900070/netns"
	pid := heldWith(t, "listen GRESNET_SERVERS=2000", "alice", namespace, "900070", "rdma_cm")
	measure("2000 servers of RDMA-CM")
	group := gathers(t, crowd.Crowd{Open: 4000, Share: 1500, Copies: 300, Spaces: 30}, "900070", vm.UverbsOf(t, first))
	measure("and 1800 processes, 4000 descriptors, 30 namespaces, mounts")
	out, code, took := timed(t, "epilog", inPartition(900070, "first"))
	if code != 0 {
		t.Errorf("the user's own epilog: exit %d: %s", code, out)
	}
	fmt.Fprintf(&table, "\n%-60s %s %5.1f s", "the epilog of the user's own job, whose processes go on", "epilog", took.Seconds())
	measure("after that epilog: an HCA of which the processes are sought")
	t.Logf("the longest of %d, beside a job of another user's who has%s", runs, table.String())
	ends(t, pid)
	disperses(t, group)
	isFree(t)
	vm.Same(t, before)
}
