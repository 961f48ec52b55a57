package access

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

// hide sends a device through a socket, from which nobody takes it. The process that has the socket's two
// ends has no descriptor of the device.
func hide(device *os.File, holder *int) error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(ends[0], []byte("x"), unix.UnixRights(int(device.Fd())), nil, 0); err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "GRESNET_HOLD=keep")
	child.ExtraFiles = []*os.File{os.NewFile(uintptr(ends[0]), "one end"), os.NewFile(uintptr(ends[1]), "other end")}
	if err := child.Start(); err != nil {
		return err
	}
	*holder = child.Process.Pid
	return nil
}

// become leaves a device to a child and executes a program that makes itself root, as sudo does before it
// asks for a password: the thread that began to use the device is root's from then on.
func become(device *os.File) error {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "GRESNET_HOLD=keep")
	child.ExtraFiles = []*os.File{device}
	if err := child.Start(); err != nil {
		return err
	}
	if err := os.Setenv("GRESNET_HOLD", "became"); err != nil {
		return err
	}
	return syscall.Exec(becomes, []string{becomes}, os.Environ())
}

const becomes = "/usr/local/bin/becomes"

func TestRootsProcessesDoNotHideAUsersContext(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hasPolicies(t, "\n[access]\nguard = \"off\"\n") // a program by hand has no job's cgroup
	before := vm.Picture(t)
	first := vm.ByIndex(t)[0]
	node := vm.UverbsOf(t, first)
	vm.Run(t, "install -m 4755 "+vm.ProbeProgram(t)+" "+becomes)
	t.Cleanup(func() { vm.Run(t, "rm "+becomes) })

	// Root has the HCA open, and the user's descriptor is where no process has it.
	vm.Must(t, "prolog", inPartition(900070, "first"))
	process := exec.Command("sh", "-c", `exec 3<"$0"; exec cat /proc/self/comm -`, "/dev/infiniband/"+node)
	rootsEnds := standin.Start(t, process)
	pid := held(t, "hide", "alice", "/proc/1/ns/net", "900070", node)
	vm.Must(t, "epilog", inPartition(900070, "first"))
	isKept(t, first, handedOn)
	ends(t, pid)
	isFree(t)

	// The process that the kernel names has become root, and a child of its has the context.
	vm.Must(t, "prolog", inPartition(900070, "first"))
	pid = held(t, "become", "alice", "/proc/1/ns/net", "900070", node)
	vm.Must(t, "epilog", inPartition(900070, "first"))
	isKept(t, first, ofPID(pid))
	vm.Run(t, "pkill -9 -u alice || true")
	ends(t, pid) // only then its child, which was alice's, is no zombie any more
	vm.Run(t, "while pgrep -u alice >/dev/null; do sleep 0.1; done")
	isFree(t)
	rootsEnds()
	vm.Same(t, before)
}
