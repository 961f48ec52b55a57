package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/link"
	"gresnet/test/netnstest"
)

func TestWhatUsersSocketsMakeTheKernelUseIsNoFaultOfTheNodes(t *testing.T) {
	for modules, users := range map[string]bool{"smc": true, "rds_rdma": true, "smc rds_rdma": true, "smc nvme_rdma": false, "nvme_rdma": false, "rpcrdma": true, "cifs": true, "rpcrdma nvme_rdma": false} {
		err := byKernel("mlx5_3", strings.Fields(modules))
		var refusal *gres.Refusal
		if errors.As(err, &refusal) != users || !strings.Contains(err.Error(), "the kernel uses mlx5_3 for ") {
			t.Errorf("%s: %#v", modules, err)
		}
	}
}

// sleeper returns a process of a user that ends with the test.
func sleeper(t *testing.T, uid uint32) int {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd.Process.Pid
}

func TestAnHCAThatAServiceOfRootsUsesIsNoJobs(t *testing.T) {
	if os.Getuid() != 0 {
		netnstest.Skip(t, "needs root")
	}
	service, users := sleeper(t, 0), sleeper(t, 1000)
	const gone = 1 << 22 // more than any pid
	err := byServices("mlx5_0", []int{users, service, gone, service}, 0)
	var refusal *gres.Refusal
	if want := fmt.Sprintf("mlx5_0: root's sleep (pid %d) uses it", service); !errors.As(err, &refusal) || err.Error() != want || hint.ID(err) != "GN549" {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := byServices("mlx5_0", []int{users, gone}, 0); err != nil {
		t.Errorf("a user's process, and one that has ended: %v", err)
	}
	if err := byServices("mlx5_0", []int{service}, 24*time.Hour); err != nil {
		t.Errorf("one that only looks at the HCA: %v", err)
	}
}

func TestAnHCAThatEndsWithItsInterfaceIsRefusedUnlessThatIsKept(t *testing.T) {
	for _, c := range []struct {
		driver  string
		keep    bool
		refused bool
	}{
		{"rxe", false, true},
		{"siw", false, true},
		{"rxe", true, false},
		{"siw", true, false},
		{"mlx5", false, false},
		{"bnxt_re", false, false}, // it comes again where its interface is
		{"", false, false},        // without ib_uverbs nobody tells
	} {
		err := survives(c.keep, scan.Device{Name: "rxe0", Driver: c.driver}, "eth0")
		if (err != nil) != c.refused {
			t.Errorf("driver %q, keep %t: %v", c.driver, c.keep, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "driver "+c.driver+" ends rxe0 when its interface eth0 is moved") || !strings.Contains(hint.Of(err), "keep")) {
			t.Errorf("driver %q: %v, hint %q", c.driver, err, hint.Of(err))
		}
	}
}

func TestAnInterfaceThatNothingTellsFromAnotherOneIsRefused(t *testing.T) {
	two := func(parent string) []link.Interface {
		return []link.Interface{
			{ID: link.ID{Parent: "pci/0000:3b:00.1"}, Index: 5, Name: "enp59s0v0", MAC: "02:00:00:00:00:01"},
			{ID: link.ID{Parent: parent}, Index: 6, Name: "other0", MAC: "02:00:00:00:00:02"},
		}
	}
	if list := two("pci/0000:3b:00.2"); isKnowable(list[0], list) != nil {
		t.Errorf("each is on a function of its own: %v", isKnowable(list[0], list))
	}
	list := two("pci/0000:3b:00.1")
	if err := isKnowable(list[0], list); err == nil || !strings.Contains(err.Error(), "enp59s0v0 and other0 are both interfaces of pci/0000:3b:00.1") || hint.Of(err) == "" {
		t.Errorf("both are on one function: %v", err)
	}
}
