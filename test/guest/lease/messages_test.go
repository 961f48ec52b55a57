package lease

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// most is how many requests over netlink a prolog and an epilog of eight RoCE HCAs make, and how many of these
// are for lists of the kernel. In each, fewer is better: lower the numbers when it gets so far. Looks for an RDMA
// device by its index are not counted: there is one for each index up to the highest, which grows with each HCA that
// came since the boot.
var most = map[string]map[string]requests{
	"exclusive": {"prolog": {280, 100}, "epilog": {260, 80}},
	"shared":    {"prolog": {300, 100}, "epilog": {250, 75}},
}

const byIndex = "0x1401" // RDMA_NLDEV_CMD_GET of RDMA_NL_NLDEV

type requests struct{ all, dumps int }

// header finds the header of each request in a line of strace.
var header = regexp.MustCompile(`nlmsg_type=([A-Z_0-9a-fx]+).*?nlmsg_flags=([A-Z_|0-9a-fx]+)`)

// requestsIn counts the requests in what strace saw, and lists them by type.
func requestsIn(log string) (n requests, kinds string) {
	count := map[string]int{}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " sendto(") {
			continue
		}
		for _, m := range header.FindAllStringSubmatch(line, -1) {
			kind := m[1]
			list := strings.Contains(m[2], "NLM_F_DUMP") || strings.Contains(m[2], "0x30")
			if kind == byIndex && !list {
				continue
			}
			n.all++
			if list {
				n.dumps++
				kind += " dump"
			}
			count[kind]++
		}
	}
	var lines []string
	for kind, times := range count {
		lines = append(lines, fmt.Sprintf("%4d %s\n", times, kind))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return n, strings.Join(lines, "")
}

func TestALeaseOfEightHCAsAsksTheKernelFewThingsOverNetlink(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	options := strings.TrimSpace(vm.Run(t, "cd /sys/module/ibfake/parameters; grep -H . nib nroce nmin | tr : = | xargs"))
	vm.Run(t, "modprobe -r ibfake; "+vm.ForgetTable+"; modprobe ibfake nib=0 nmin=0 nroce=8; udevadm settle\n"+vm.GiveAddresses)
	t.Cleanup(func() {
		vm.Run(t, "modprobe -r ibfake; "+vm.ForgetTable+"; modprobe ibfake "+options+"; udevadm settle\n"+vm.Dress+vm.Repo()+"/bin/gresnet close")
		vm.WriteConfig(t, vm.Config)
	})
	config := "[slurm]\nsource = [\"gpu\"]\n"
	for i := range 8 {
		config += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=ibfake%[1]d\"\ngpus = [%[1]d]\n", i)
	}
	vm.WriteConfig(t, config)
	vm.NoDeadline(t) // strace stops it at each request
	const job = "SLURM_JOB_ID=900172 SLURM_JOB_GPUS=0,1,2,3,4,5,6,7"
	vm.Must(t, "prolog", job) // the first one of a boot also numbers the HCAs
	vm.Must(t, "epilog", job)
	before := vm.Picture(t)
	for _, program := range []string{"prolog", "epilog"} {
		if out, code := vm.Traced(t, program, job, "-s 300"); code != 0 {
			t.Fatalf("%s: exit %d: %s", program, code, out)
		}
		log, err := os.ReadFile(vm.TraceFile)
		if err != nil {
			t.Fatal(err)
		}
		got, kinds := requestsIn(string(log))
		t.Logf("%s: %d requests, %d of them for lists", program, got.all, got.dumps)
		if want := most[vm.Mode(t)][program]; got.all > want.all || got.dumps > want.dumps || got.all == 0 {
			t.Errorf("a %s makes %d requests, %d for lists; %d and %d are the most:\n%s", program, got.all, got.dumps, want.all, want.dumps, kinds)
		}
	}
	vm.Same(t, before)
}
