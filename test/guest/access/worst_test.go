package access

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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

// timed runs a program as slurmd would, and returns what it says, its exit code and how long it took.
func timed(t *testing.T, program, job string) (string, int, time.Duration) {
	t.Helper()
	begun := time.Now()
	out, code := vm.ByHand(t, program, job)
	return out, code, time.Since(begun)
}

const bobs = " SLURM_JOB_UID=1001 SLURM_JOB_USER=bob SLURM_JOB_GID=1001"

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
