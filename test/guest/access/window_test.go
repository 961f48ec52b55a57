package access

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/guest/vm"
)

// A test binary is also the program that a user runs against the node.
func init() {
	if folder := os.Getenv("GRESNET_LOOP"); folder != "" {
		openAgainAndAgain(folder)
		os.Exit(0)
	}
}

// openAgainAndAgain opens whatever there is in a folder of device nodes as often as it can,
// by paths and by the folder, until the file "stop" is there.
func openAgainAndAgain(folder string) {
	dir, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	fmt.Println("the folder:", err)
	nodes := []string{"rdma_cm"}
	for i := range 8 {
		nodes = append(nodes, fmt.Sprintf("uverbs%d", i), fmt.Sprintf("umad%d", i))
	}
	tries, opened := 0, map[string]bool{}
	for ; ; tries++ {
		for _, name := range nodes {
			for _, at := range []int{unix.AT_FDCWD, dir} {
				path := name
				if at == unix.AT_FDCWD {
					path = folder + "/" + name
				}
				fd, err := unix.Openat(at, path, unix.O_RDWR, 0)
				if err != nil {
					continue
				}
				unix.Close(fd)
				opened[name] = true
			}
		}
		if _, err := os.Lstat("/tmp/stop"); err == nil {
			break
		}
		if tries == 0 {
			fmt.Println("began")
		}
	}
	fmt.Println("tries:", tries)
	for name := range opened {
		fmt.Println("opened", name)
	}
}

// everyHCA gives each job two HCAs, of all that the node has.
const everyHCA = "[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = 2\n"

func TestAUserWhoOpensInALoopNeverOpensADeviceNodeOfTheNodes(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithSource(t, everyHCA)
	vm.Slurm(t)
	vm.WriteConfig(t, everyHCA)
	withRule(t)
	probe := vm.ProbeProgram(t)
	before := vm.Picture(t)
	vm.Run(t, "rm -f /tmp/stop /tmp/loop; touch /tmp/loop; chown alice /tmp/loop")
	vm.As(t, "alice", "GRESNET_LOOP=/dev/infiniband "+probe+" >/tmp/loop 2>&1 &")
	stop := func() { vm.Run(t, "touch /tmp/stop") }
	t.Cleanup(stop)
	began := func() bool { return strings.Contains(vm.Run(t, "cat /tmp/loop"), "began") }
	vm.Eventually(t, "the loop runs", began)
	for range vm.Rounds(3, 10) {
		vm.Must(t, "prolog", vm.ReturnJob)
		vm.Must(t, "epilog", vm.ReturnJob)
	}
	stop()
	ended := func() bool { return strings.Contains(vm.Run(t, "cat /tmp/loop"), "tries:") }
	vm.Eventually(t, "the loop has ended", ended)
	out := vm.Run(t, "cat /tmp/loop")
	t.Log(out)
	if strings.Contains(out, "opened") {
		t.Error("a user opened device nodes of the node")
	}
	vm.Same(t, before)
}
