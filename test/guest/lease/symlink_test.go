package lease

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/guest/vm"
)

// An epilog looks for a device that is not where it should be, among all that stands for a network namespace.
// A user has put a symbolic link where one did, in a mount namespace of the user's own.
func TestASearchForALostDeviceOpensNoFileThatAUserNames(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.HomeJob)
	const canary = "/tmp/canary"
	if err := os.WriteFile(canary, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, canary, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	vm.As(t, "alice", `rm -rf /tmp/alices; mkdir -p /tmp/alices/sub; touch /tmp/alices/sub/ns /tmp/alices.pid
unshare -Urnm sh -ec 'mount --bind /proc/self/ns/net /tmp/alices/sub/ns; mount -t tmpfs none /tmp/alices; mkdir /tmp/alices/sub
ln -s `+canary+` /tmp/alices/sub/ns; echo $$ >/tmp/alices.pid; exec sleep 1000' >/dev/null 2>&1 </dev/null &`)
	vm.Eventually(t, "the link is there", func() bool {
		text, _ := os.ReadFile("/tmp/alices.pid")
		return strings.TrimSpace(string(text)) != ""
	})
	vm.Run(t, "ip netns add else; touch /tmp/else; mount --bind /run/netns/else /tmp/else")
	for _, name := range interfacesOfJob(t) {
		if !strings.HasPrefix(name, "ib") {
			inHomeJob(t, "ip link set "+name+" netns else")
		}
	}
	vm.Run(t, "ip netns del else")
	vm.Must(t, "epilog", vm.HomeJob)
	if n, err := unix.Read(watch, make([]byte, 4096)); err != unix.EAGAIN {
		t.Errorf("the epilog opened a file that a user named: %d, %v", n, err)
	}
	vm.Run(t, "kill $(cat /tmp/alices.pid); umount /tmp/else; rm -rf /tmp/alices /tmp/alices.pid "+canary)
	vm.Same(t, before)
}
