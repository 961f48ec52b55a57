package access

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/test/fusetest"
	"gresnet/test/guest/vm"
)

// A test binary is also the program of a user's that keeps an HCA.
func init() {
	what := os.Getenv("GRESNET_HOLD")
	switch what {
	case "":
		return
	case "keep":
		time.Sleep(time.Hour)
	case "became":
		use(syscall.Setresuid(0, 0, 0))
		fmt.Println("holds", os.Getpid())
		time.Sleep(time.Hour)
	}
	if name := os.Getenv("GRESNET_NAME"); name != "" {
		use(os.WriteFile("/proc/self/comm", []byte(name), 0))
	}
	// Who did not open a device cannot use it by write(2) (rdma/ib.h:ib_safe_file_access).
	device, err := os.OpenFile(os.Getenv("GRESNET_NODE"), os.O_RDWR, 0)
	use(err)
	holder := os.Getpid()
	switch what {
	case "stay":
		use(context(int(device.Fd())))
	case "hand":
		use(context(int(device.Fd())))
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "GRESNET_HOLD=keep")
		child.ExtraFiles = []*os.File{device}
		use(child.Start())
		holder = child.Process.Pid
	case "hide":
		use(context(int(device.Fd())))
		use(hide(device, &holder))
	case "become":
		use(context(int(device.Fd())))
		use(become(device))
	case "loopback":
		use(blockInRDMACM(int(device.Fd()), os.Getenv("GRESNET_PAGE")))
	case "block":
		use(blockInVerbs(int(device.Fd()), os.Getenv("GRESNET_PAGE")))
	case "listen":
		use(listen(int(device.Fd()), number("GRESNET_SERVERS")))
	default: // the GID of a port
		use(resolveIB(int(device.Fd()), what))
	}
	fmt.Println("holds", holder)
	if what == "hand" || what == "hide" {
		os.Exit(0)
	}
	time.Sleep(time.Hour)
}

func use(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// context is IB_USER_VERBS_CMD_GET_CONTEXT by write(2), as rdma/ib_user_verbs.h has it.
func context(fd int) error {
	answer, request := make([]byte, 8), make([]byte, 16)
	binary.NativeEndian.PutUint16(request[4:], 4)
	binary.NativeEndian.PutUint16(request[6:], 2)
	binary.NativeEndian.PutUint64(request[8:], uint64(uintptr(unsafe.Pointer(&answer[0]))))
	_, err := unix.Write(fd, request)
	return err
}

// ucma sends a command of RDMA-CM, as rdma/rdma_user_cm.h and librdmacm have them.
func ucma(fd int, cmd uint32, body []byte, out int) error {
	header := make([]byte, 8)
	binary.NativeEndian.PutUint32(header, cmd)
	binary.NativeEndian.PutUint16(header[4:], uint16(len(body)))
	binary.NativeEndian.PutUint16(header[6:], uint16(out))
	_, err := unix.Write(fd, append(header, body...))
	return err
}

// resolve makes an id of RDMA-CM and has it resolve an address: a struct sockaddr without its
// family. It returns the id.
func resolve(fd int, portSpace, family uint16, size int, address []byte) (id []byte, err error) {
	const createID, resolveAddr = 0, 21
	answer := make([]byte, 4)
	create := make([]byte, 24)
	binary.NativeEndian.PutUint64(create[8:], uint64(uintptr(unsafe.Pointer(&answer[0]))))
	binary.NativeEndian.PutUint16(create[16:], portSpace)
	create[18] = 2 // IB_QPT_RC
	if err := ucma(fd, createID, create, len(answer)); err != nil {
		return nil, fmt.Errorf("create an id: %w", err)
	}
	request := make([]byte, 16+2*128)
	copy(request, answer)
	binary.NativeEndian.PutUint32(request[4:], 1000)
	binary.NativeEndian.PutUint16(request[10:], uint16(size))
	to := request[16+128:]
	binary.NativeEndian.PutUint16(to, family)
	copy(to[2:], address)
	if err := ucma(fd, resolveAddr, request, 0); err != nil {
		return nil, fmt.Errorf("resolve %x: %w", address, err)
	}
	return answer, nil
}

// resolveIB resolves an address of the family AF_IB.
func resolveIB(fd int, gid string) error {
	const (
		portSpaceIB = 0x013f
		familyIB    = 27
		sizeOfIB    = 48 // struct sockaddr_ib, rdma/ib.h
	)
	raw, err := hex.DecodeString(strings.ReplaceAll(gid, ":", ""))
	if err != nil {
		return err
	}
	const defaultPKey = "\xff\xff"
	_, err = resolve(fd, portSpaceIB, familyIB, sizeOfIB, append([]byte(defaultPKey+"\x00\x00\x00\x00"), raw...))
	return err
}

// blockInRDMACM resolves 127.0.0.1 and asks for the id's route, with a page for the answer whose
// file server does not answer. The kernel holds the id meanwhile (ucma.c:ucma_query_route).
func blockInRDMACM(fd int, path string) error {
	const portSpaceTCP, queryRoute, answerSize = 0x0106, 5, 512
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	id, err := resolve(fd, portSpaceTCP, unix.AF_INET, 16, []byte{0x1b, 0x39, 127, 0, 0, 1})
	if err != nil {
		return err
	}
	fmt.Println("holds", os.Getpid())
	query := make([]byte, 16)
	binary.NativeEndian.PutUint64(query, uint64(uintptr(unsafe.Pointer(&page[0]))))
	copy(query[8:], id)
	return ucma(fd, queryRoute, query, answerSize)
}

// blockInVerbs asks for a context. Of the request, only the header is in a page that is there. The kernel reads the rest
// when it has begun the call, and before there is a context (uverbs_cmd.c:ib_uverbs_get_context).
func blockInVerbs(fd int, path string) error {
	const page, header, size = 4096, 8, 16
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	pages, err := unix.MmapPtr(-1, 0, nil, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	if _, err := unix.MmapPtr(int(file.Fd()), 0, unsafe.Add(pages, page), page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return err
	}
	request := unsafe.Slice((*byte)(unsafe.Add(pages, page-header)), size)
	binary.NativeEndian.PutUint32(request, 0)
	binary.NativeEndian.PutUint16(request[4:], size/4)
	binary.NativeEndian.PutUint16(request[6:], 2)
	fmt.Println("holds", os.Getpid())
	_, err = unix.Write(fd, request)
	return err
}

// byPartition has jobs say by their partition what they get.
const byPartition = `
[slurm]
source = ["policy"]
[[policy]]
partition = "first"
indices = [0]
[[policy]]
partition = "second"
indices = [1]
[[policy]]
partition = "any"
count = 1
[[policy]]
partition = "all"
count = 4
`

// hasPolicies is a node with jobs by hand, of the configuration above.
func hasPolicies(t *testing.T, more string) {
	t.Helper()
	vm.Slurm(t)
	vm.WriteConfig(t, byPartition+more)
	t.Cleanup(func() {
		for job := 900070; job <= 900074; job++ {
			vm.Must(t, "epilog", inPartition(job, "any"))
		}
		vm.WriteConfig(t, vm.Config)
	})
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
}

func inPartition(job int, partition string) string {
	return fmt.Sprintf("SLURM_JOB_ID=%d SLURM_JOB_PARTITION=%s", job, partition)
}

// held starts a program of a job's user that keeps a device of the job's, and returns the pid
// of the process that has it in the end.
func held(t *testing.T, how, user, namespace, job, node string) string {
	t.Helper()
	pid := heldWith(t, how, user, namespace, job, node)
	t.Cleanup(func() { ends(t, pid) })
	return pid
}

// heldWith is held for a program that takes more of its environment, and that others end.
func heldWith(t *testing.T, how, user, namespace, job, node string) string {
	t.Helper()
	return heldIn(t, how, user, namespace, "/run/gresnet/jobs/"+job+"/dev", node)
}

// heldIn is heldWith for a device in a folder.
func heldIn(t *testing.T, how, user, namespace, folder, node string) string {
	t.Helper()
	probe := vm.ProbeProgram(t)
	vm.Run(t, "rm -f /tmp/held; touch /tmp/held; chmod 666 /tmp/held")
	program := strings.TrimSpace(vm.Run(t, "exec 3<"+folder+"; nsenter --net="+namespace+" setpriv --reuid "+user+" --regid "+user+" --init-groups env GRESNET_HOLD="+how+" GRESNET_NODE=/proc/self/fd/3/"+node+" setsid "+probe+" >/tmp/held 2>&1 </dev/null & echo $!"))
	var pid string
	// A program that hands the device on has it, too, until it ends.
	vm.Eventually(t, "the process has the device", func() bool {
		out := vm.Run(t, "cat /tmp/held")
		if m := regexp.MustCompile(`holds (\d+)`).FindStringSubmatch(out); m != nil {
			pid = m[1]
		}
		if strings.Contains(out, "failed") {
			t.Fatal(out)
		}
		_, err := os.Stat("/proc/" + program)
		return pid != "" && (pid == program || err != nil)
	})
	return pid
}

func ends(t *testing.T, pid string) {
	t.Helper()
	vm.Run(t, "kill -9 "+pid+" 2>/dev/null || true; while kill -0 "+pid+" 2>/dev/null; do sleep 0.1; done")
}

func status(t *testing.T) string {
	t.Helper()
	return vm.Run(t, vm.Repo()+"/bin/gresnet status")
}

// ofPID names a process in what is said of who uses an HCA; handedOn is said of one that the kernel does not name.
func ofPID(pid string) string { return "(pid " + pid + ")" }

const handedOn = "a process that was handed a descriptor"

// isKept holds an HCA to be kept from jobs while a user's process uses it, which status and
// a refused job name.
func isKept(t *testing.T, name, by string) {
	t.Helper()
	said := status(t)
	if !regexp.MustCompile(`(?s)` + name + ` \([^)]*\) is quarantined:\n  no job has it, but [^\n]*` + regexp.QuoteMeta(by)).MatchString(said) {
		t.Errorf("status does not say that %s uses %s:\n%s", by, name, said)
	}
	if out, code := vm.Command(t, "gresnet release "+name); code != 1 || !strings.Contains(out, by) {
		t.Errorf("release: exit %d: %s", code, out)
	}
	vm.Must(t, "prolog", inPartition(900071, "any"))
	if claims := vm.Claims(t, "900071"); claims == "" || strings.Contains(claims, name) {
		t.Errorf("a job that any HCA will do for got %q while %s uses %s", claims, by, name)
	}
	vm.Must(t, "epilog", inPartition(900071, "any"))
	vm.Must(t, "prolog", inPartition(900072, "all"))
	if env := vm.Run(t, "cat /run/gresnet/jobs/900072/env"); !strings.Contains(env, "GRESNET_REFUSED=") || !strings.Contains(env, by) {
		t.Errorf("a job that needs %s has the lease\n%s", name, env)
	}
	vm.Must(t, "epilog", inPartition(900072, "all"))
}

// isFree holds all HCAs to be had again, without anybody's doing.
func isFree(t *testing.T) {
	t.Helper()
	if said := status(t); strings.Contains(said, "quarantined") {
		t.Errorf("status:\n%s", said)
	}
	vm.Must(t, "prolog", inPartition(900073, "all"))
	if claims := strings.Fields(vm.Claims(t, "900073")); len(claims) != 4 {
		t.Errorf("a job that needs all HCAs has %q", claims)
	}
	vm.Must(t, "epilog", inPartition(900073, "all"))
}

func TestAnHCAThatAJobsProcessHandedOnIsNoJobsUntilThatIsGoneInSharedMode(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hasPolicies(t, "\n[access]\nguard = \"off\"\n") // a program by hand has no job's cgroup
	before := vm.Picture(t)
	first := vm.ByIndex(t)[0]
	node := vm.UverbsOf(t, first)
	for _, how := range []string{"stay", "hand", hostile} {
		vm.Must(t, "prolog", inPartition(900070, "first"))
		pid := held(t, how, "alice", "/proc/1/ns/net", "900070", node)
		vm.Must(t, "epilog", inPartition(900070, "first"))
		by := ofPID(pid)
		if how == "hand" {
			by = handedOn
		}
		isKept(t, first, by)
		if how == hostile {
			isPlain(t, "status", status(t))
			out, _ := vm.Command(t, "gresnet status --json")
			isPlain(t, "status --json", out)
			out, _ = vm.Command(t, "gresnet release "+first)
			isPlain(t, "release", out)
			vm.Must(t, "prolog", inPartition(900072, "all"))
			isPlain(t, "the refusal", vm.Run(t, "cat /run/gresnet/jobs/900072/env"))
			out, _ = vm.ByHand(t, "epilog --trace", inPartition(900072, "all"))
			isPlain(t, "the epilog", out)
		}
		ends(t, pid)
		isFree(t)
	}
	vm.Same(t, before)
}

func TestAFreeHCAThatAUsersProcessUsesIsPassedOverWhereUsersMayOpenIt(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	hasPolicies(t, "\n[access]\nhost = \"open\"\n")
	first := vm.ByIndex(t)[0]
	node := vm.UverbsOf(t, first)
	vm.Run(t, "chmod 666 /dev/infiniband/"+node)
	t.Cleanup(func() { vm.Run(t, "chmod 600 /dev/infiniband/"+vm.UverbsOf(t, first)) })
	vm.Must(t, "prolog", inPartition(900070, "first")) // it gives HCAs their numbers
	vm.Must(t, "epilog", inPartition(900070, "first"))
	before := vm.Picture(t)
	pid := heldIn(t, "stay", "alice", "/proc/1/ns/net", "/dev/infiniband", vm.UverbsOf(t, first))
	t.Cleanup(func() { ends(t, pid) })
	isKept(t, first, ofPID(pid))
	ends(t, pid)
	isFree(t)
	vm.Same(t, before)
}

// hostile is a process whose name clears a terminal, begins a line, and turns what is read.
const hostile = `stay GRESNET_NAME=$'\e[2J\n\xe2\x80\xae(pid 1)'`

// isPlain holds a text to have no character but those that a terminal prints as themselves.
func isPlain(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && (!unicode.IsPrint(r) || r == unicode.ReplacementChar) {
			t.Fatalf("%s has %U:\n%q", what, r, text)
		}
	}
	if strings.Contains(text, "\n(pid 1)") {
		t.Errorf("%s has a line that a user has made:\n%s", what, text)
	}
}

// With host = "open" a user can begin a call on a free HCA, and nothing shows it to be used until the call ends. The
// kernel moves the HCA no sooner.
func TestAUserWhoBlocksInACallOnAFreeHCAFailsNoPrologAndNoEpilog(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	hasPolicies(t, "\n[access]\nhost = \"open\"\n")
	f := fusetest.Mount(t, "none", fusetest.Read)
	t.Setenv("GRESNET_PAGE", filepath.Join(f.Dir, fusetest.File))
	first := vm.ByIndex(t)[0]
	vm.Run(t, "chmod 666 /dev/infiniband/"+vm.UverbsOf(t, first))
	t.Cleanup(func() { vm.Run(t, "chmod 600 /dev/infiniband/"+vm.UverbsOf(t, first)) })
	vm.Must(t, "prolog", inPartition(900070, "first")) // it gives HCAs their numbers
	vm.Must(t, "epilog", inPartition(900070, "first"))
	before := vm.Picture(t)
	pid := heldIn(t, "block", "alice", "/proc/1/ns/net", "/dev/infiniband", vm.UverbsOf(t, first))
	f.Await(t, fusetest.Read)
	for _, job := range []string{inPartition(900070, "first"), inPartition(900070, "first") + " SLURM_JOB_RESTART_COUNT=1"} {
		out, code := vm.ByHand(t, "prolog", job)
		env, _ := os.ReadFile("/run/gresnet/jobs/900070/env")
		if code != 0 || !strings.Contains(string(env), "\nGRESNET_REFUSED=") || !strings.Contains(string(env), "move RDMA device "+first) {
			t.Errorf("prolog: exit %d: %s\n%s", code, out, env)
		}
		if out, code := vm.ByHand(t, "epilog", job); code != 0 || !strings.Contains(out, "warning: as before, ") {
			t.Errorf("epilog: exit %d: %s", code, out)
		}
	}
	vm.IsRefused(t, 900071, "SLURM_JOB_PARTITION=first", "it is quarantined since job 900070")
	f.End()
	ends(t, pid)
	vm.Eventually(t, "the HCA is back", func() bool {
		_, code := vm.ByHand(t, "epilog", inPartition(900070, "first"))
		return code == 0 && !strings.Contains(status(t), "quarantined")
	})
	vm.Same(t, before)
}

// What rdma_cm does with addresses of the family AF_IB, cma.c:cma_resolve_ib_dev: it goes
// through the HCAs of all namespaces. If this fails, the kernel has been fixed, and
// docs/security.md is to say so.
func TestByAFIBAnIDIsOfAnotherJobsHCAAndThatIsNoJobsMeanwhile(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	hasPolicies(t, "\n[access]\nrdma_cm = true\n")
	before := vm.Picture(t)
	first := vm.ByIndex(t)[0]
	gid := strings.TrimSpace(vm.Run(t, "cat /sys/class/infiniband/"+first+"/ports/1/gids/0"))
	const other = "SLURM_JOB_UID=1001 SLURM_JOB_USER=bob SLURM_JOB_GID=1001"
	vm.Must(t, "prolog", inPartition(900070, "first"))
	vm.Must(t, "prolog", inPartition(900074, "second")+" "+other)
	const inside = "/run/gresnet/jobs/900074/netns"
	where := "/proc/1/ns/net"
	if vm.IsExclusive(t) {
		where = "/run/gresnet/jobs/900070/netns"
	}
	ids := func() string {
		return strings.TrimSpace(vm.Run(t, "nsenter --net="+where+" rdma -j resource show | jq -c '.[] | select(.ifname == \""+first+"\").cm_id'"))
	}
	had := ids()
	pid := held(t, gid, "bob", inside, "900074", "rdma_cm")
	if has := ids(); had != "0" || has != "1" {
		t.Errorf("another job's HCA had %s ids and has %s", had, has)
	}
	vm.Must(t, "epilog", inPartition(900070, "first"))
	// A move takes the HCA from all who use it. Then it is back, where the other job's user finds it, too.
	if vm.IsExclusive(t) {
		if said := status(t); strings.Contains(said, "quarantined") {
			t.Errorf("after a move status says\n%s", said)
		}
		ends(t, pid)
		// The kernel takes the first HCA that has the subnet's prefix: what moved last is its last.
		vm.Must(t, "epilog", inPartition(900074, "second")+" "+other)
		vm.Must(t, "prolog", inPartition(900074, "second")+" "+other)
		pid = held(t, gid, "bob", inside, "900074", "rdma_cm")
	}
	said := status(t)
	if !strings.Contains(said, "(pid "+pid+") of user 1001") {
		t.Errorf("status does not name process %s:\n%s", pid, said)
	}
	vm.Must(t, "prolog", inPartition(900070, "first"))
	if env := vm.Run(t, "cat /run/gresnet/jobs/900070/env"); !strings.Contains(env, "GRESNET_REFUSED=") || !strings.Contains(env, "(pid "+pid+")") {
		t.Errorf("a job that needs %s has the lease\n%s", first, env)
	}
	vm.Must(t, "epilog", inPartition(900070, "first"))
	ends(t, pid)
	vm.Must(t, "epilog", inPartition(900074, "second")+" "+other)
	isFree(t)
	vm.Same(t, before)
}

// An id that resolves 127.0.0.1 is attached to the first active HCA of the kernel's list, in
// whatever network namespace that is (cma.c:cma_bind_loopback). A process that blocks meanwhile
// keeps the kernel from ending a move of it. In shared mode nothing moves: the HCA is being returned, and is no
// job's until the process ends. If this fails, the kernel has been fixed, and docs/security.md is to
// say so.
func TestByIPv4LoopbackAnIDIsOfAnotherJobsHCAAndAProcessThatBlocksKeepsThatAway(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	hasPolicies(t, "\n[access]\nrdma_cm = true\n")
	f := fusetest.Mount(t, "none", fusetest.Read)
	t.Setenv("GRESNET_PAGE", filepath.Join(f.Dir, fusetest.File))
	const other = "SLURM_JOB_UID=1001 SLURM_JOB_USER=bob SLURM_JOB_GID=1001"
	// The first job's HCA comes before the second's, because each move makes an HCA the list's last. The
	// stubs' RoCE ports never become active to the kernel's cache.
	vm.Must(t, "prolog", inPartition(900070, "first"))
	vm.Must(t, "prolog", inPartition(900074, "second")+" "+other)
	pid := held(t, "loopback", "bob", "/run/gresnet/jobs/900074/netns", "900074", "rdma_cm")
	f.Await(t, fusetest.Read)
	if ids := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900070/netns rdma resource show"); !strings.Contains(ids, "cm_id 1") {
		t.Errorf("the other job's HCAs have\n%s", ids)
	}
	out, code := vm.ByHand(t, "epilog", inPartition(900070, "first"))
	if !vm.IsExclusive(t) {
		if code != 0 {
			t.Errorf("exit %d: %s", code, out)
		}
		if said := status(t); !strings.Contains(said, "(pid "+pid+") of user 1001") {
			t.Errorf("status does not name process %s:\n%s", pid, said)
		}
		vm.Must(t, "prolog", inPartition(900070, "first"))
		if env := vm.Run(t, "cat /run/gresnet/jobs/900070/env"); !strings.Contains(env, "GRESNET_REFUSED=") || !strings.Contains(env, "(pid "+pid+")") {
			t.Errorf("a job that needs the HCA has the lease\n%s", env)
		}
		vm.Must(t, "epilog", inPartition(900070, "first"))
		f.End()
		ends(t, pid)
		vm.Must(t, "epilog", inPartition(900074, "second")+" "+other)
		isFree(t)
		return
	}
	t.Logf("the epilog of the other job: exit %d: %s", code, out)
	if code != 2 {
		t.Errorf("exit %d: %s", code, out)
	}
	// It is no fault of the node's that the next job cannot have it.
	vm.Must(t, "prolog", inPartition(900071, "first"))
	if env := vm.Run(t, "cat /run/gresnet/jobs/900071/env"); !strings.Contains(env, "GRESNET_REFUSED=") || !strings.Contains(env, "it is quarantined since job 900070") {
		t.Errorf("a job that needs the HCA has the lease\n%s", env)
	}
	vm.Must(t, "epilog", inPartition(900071, "first"))
	f.End()
	vm.Eventually(t, "the HCAs are back", func() bool {
		_, code := vm.ByHand(t, "epilog", inPartition(900070, "first"))
		return code == 0 && !strings.Contains(status(t), "quarantined")
	})
	vm.Must(t, "epilog", inPartition(900074, "second")+" "+other)
}

func TestAJobHasRDMACMIfTheSiteGivesItOrNobodyElseHasTheNode(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	const (
		all = "SLURM_JOB_EXCLUSIVE=NODE"
		of  = "[[policy]]\npartition = \"first\"\nrdma_cm = "
	)
	for _, c := range []struct {
		site, slurm string
		want        bool
	}{
		{"", "", false}, {"", all, true}, {"", "SLURM_JOB_EXCLUSIVE=USER", false},
		{"[access]\nrdma_cm = \"auto\"\n", "SLURM_JOB_OVERSUBSCRIBE=NO", true},
		{"[access]\nrdma_cm = false\n", all, false}, {"[access]\nrdma_cm = true\n", "", true},
		{of + "true\n", "", true}, {of + "false\n", all, false}, {of + "\"auto\"\n[access]\nrdma_cm = true\n", "", false},
	} {
		hasPolicies(t, "\n"+c.site)
		job := inPartition(900070, "first") + " " + c.slurm
		vm.Must(t, "prolog", job)
		if out := vm.Run(t, "ls /run/gresnet/jobs/900070/dev"); strings.Contains(out, "rdma_cm") != c.want || !strings.Contains(out, "uverbs") {
			t.Errorf("%q %s: the job has %q", c.site, c.slurm, out)
		}
		vm.Must(t, "epilog", job)
	}
}
