package lease

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"gresnet/test/guest/vm"
)

const (
	trialLease  = "/run/gresnet/jobs/67108864"
	trialReport = "/tmp/try.json"
)

// goodHCAs counts the HCAs that a table of gresnet try has for good.
func goodHCAs(table string) int {
	return len(regexp.MustCompile(`(?m) good *$`).FindAllString(table, -1))
}

func TestTryHasHCAsGoIntoAJobAndBackAndIsKilled(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	names := vm.HCAsWithGPUs(t) // an InfiniBand one and a RoCE one
	before := vm.Picture(t)
	out, code := vm.Command(t, "gresnet try --rounds 2 --kill 1 --report "+trialReport+" "+strings.Join(names, " "))
	if code != 0 || goodHCAs(out) != len(names) {
		t.Errorf("exit %d, wanted %d good HCAs:\n%s", code, len(names), out)
	}
	if got := vm.Run(t, `jq -r '[.hcas[] | select(.rounds == 2 and .kills == 1 and (.verbs | startswith("context, ")))] | length' `+trialReport); vm.Atoi(strings.TrimSpace(got)) != len(names) {
		t.Errorf("%s HCAs have all rounds, a kill and a context of verbs:\n%s", got, vm.Run(t, "cat "+trialReport))
	}
	vm.Same(t, before)
}

func TestTryTakesAllAtOnceAndLeavesNothingWhereThereWasNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.Slurm(t)
	vm.Run(t, "mv /run/gresnet /run/gresnet-away; chmod 755 /dev/infiniband; chmod 666 /dev/infiniband/uverbs*")
	before := vm.Picture(t)
	out, code := vm.Command(t, "gresnet try --rounds 2 --kill 4 --all-at-once")
	if all := len(vm.HCAs(t)); code != 0 || goodHCAs(out) != all {
		t.Errorf("exit %d, wanted %d good HCAs:\n%s", code, all, out)
	}
	if out, code := vm.Command(t, "gresnet try mlx5_99"); code != 1 || !strings.Contains(out, "GN632") {
		t.Errorf("an HCA that is not there: exit %d:\n%s", code, out)
	}
	if left := vm.Run(t, "ls -d /run/gresnet /run/gresnet-try /sys/fs/cgroup/gresnet-try 2>/dev/null || true"); left != "" {
		t.Errorf("try leaves %s", left)
	}
	vm.Same(t, before)
	vm.Run(t, "mv /run/gresnet-away /run/gresnet")
	vm.Run(t, vm.Repo()+"/bin/gresnet close; chmod 600 /dev/infiniband/uverbs*")
}

// faulty makes a udevadm that does something on the third call, which is the first one after an epilog: a picture
// begins with udevadm, and there are two pictures before the first prolog.
func faulty(t *testing.T, fault string) (path string) {
	t.Helper()
	vm.Run(t, "rm -rf /tmp/faulty; mkdir /tmp/faulty; printf '%s' "+vm.Quote(`#!/bin/bash
echo >>/tmp/faulty/calls
[ "$(wc -l </tmp/faulty/calls)" != 3 ] || { `+fault+`; } >/tmp/faulty/said 2>&1
exec /usr/bin/udevadm "$@"
`)+" >/tmp/faulty/udevadm; chmod +x /tmp/faulty/udevadm")
	t.Cleanup(func() { vm.Run(t, "rm -rf /tmp/faulty") })
	return "PATH=/tmp/faulty:$PATH "
}

func TestTryFindsWhatAnHCADoesNotComeBackWith(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	hca, name := withRoCE(t)
	before := vm.Picture(t)
	address := strings.TrimSpace(vm.Run(t, "ip -j addr show dev "+name+` | jq -r '[.[0].addr_info[] | select(.family == "inet6" and .scope == "global")][0] | .local + "/" + (.prefixlen | tostring)'`))
	node := strings.TrimSpace(vm.Run(t, "basename $(dirname $(grep -lx "+hca+" /sys/class/infiniband_verbs/*/ibdev))"))
	for _, f := range []struct{ what, fault, undo, want string }{
		{"an address and its GID", "ip addr del " + address + " dev " + name, "ip addr add " + address + " nodad dev " + name, "- gid of /sys/class/infiniband/" + hca + "/"},
		{"an address", "ip addr del " + address + " dev " + name, "ip addr add " + address + " nodad dev " + name, "- address of " + name + " "},
		{"an MTU", "ip link set " + name + " mtu 1400", "", `"mtu":1400`},
		{"a ring's size", "ethtool -G " + name + " rx 128", "", "+ driver of " + name + ": Current hardware settings: RX:\t\t128"},
		{"a name", "ip link property add dev " + name + " altname odd0", "ip link property del dev " + name + " altname odd0", "odd0"},
		{"an RDMA device's name", "rdma dev set " + hca + " name odd0", "rdma dev set odd0 name " + hca, `"ifname":"odd0"`},
		{"a device node's mode", "chmod 640 /dev/infiniband/" + node, "chmod 600 /dev/infiniband/" + node, "+ node of " + hca + " uverbs Dcrw-r-----"},
	} {
		settings := vm.Run(t, "ip -j link show "+name+" | jq -r '.[0].mtu'; ethtool -g "+name+" | awk '/RX:/ {n = $2} END {print n}'")
		out, err := vm.Try(faulty(t, f.fault) + vm.Repo() + "/bin/gresnet try " + hca + " 2>&1")
		if err == nil || !strings.Contains(out, f.want) || !strings.Contains(out, " differs\n") || !strings.Contains(out, "GN637") {
			t.Errorf("%s: wanted %q:\n%s\n%s", f.what, f.want, out, vm.Run(t, "cat /tmp/faulty/said"))
		}
		had := strings.Fields(settings)
		vm.Run(t, f.undo+"\nip link set "+name+" mtu "+had[0]+"; ethtool -G "+name+" rx "+had[1]+" 2>/dev/null || true")
	}
	vm.SameInAnyOrder(t, before)
}

func TestTryFindsALinkThatDoesNotComeUp(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long)
	hca, name := withRoCE(t)
	vm.Run(t, "ip link set "+name+" up")
	vm.Eventually(t, "the link is up", func() bool {
		_, err := vm.Try("grep -x 1 /sys/class/net/" + name + "/carrier")
		return err == nil
	})
	training(t, 3600000)
	out, code := vm.Command(t, "gresnet try "+hca)
	if want := "inside: " + name + " has no carrier"; code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
	}
	training(t, 0)
	vm.Command(t, "gresnet try "+hca) // the stub trains when its interface is opened; the link is now what it was not
	vm.Eventually(t, "the link is up again", func() bool {
		_, err := vm.Try("grep -x 1 /sys/class/net/" + name + "/carrier")
		return err == nil
	})
}

// trying starts gresnet try, and stops it when its lease counts.
func trying(t *testing.T, arguments ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	t.Helper()
	out = &bytes.Buffer{}
	cmd = exec.Command(vm.Repo()+"/bin/gresnet", append([]string{"try", "--rounds", "1000"}, arguments...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	vm.Eventually(t, "a trial has a lease", func() bool {
		if _, err := os.Lstat(trialLease + "/env"); err != nil {
			return false
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// Its child may be an epilog that goes on.
		left, _ := vm.Try("while pgrep -P " + fmt.Sprint(cmd.Process.Pid) + " -r R,S,D >/dev/null; do sleep 0.05; done; ls " + trialLease + "/env 2>/dev/null || true")
		if strings.TrimSpace(left) != "" {
			return true
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		return false
	})
	return cmd, out
}

func TestATrialIsNobodyElsesWhileItRunsAndAnInterruptGivesAllBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.Slurm(t)
	before := vm.Picture(t)
	cmd, out := trying(t)
	if said, code := vm.Command(t, "gresnet cleanup"); code != 0 {
		t.Errorf("cleanup: exit %d: %s", code, said)
	}
	if _, err := os.Lstat(trialLease); err != nil {
		t.Errorf("a cleanup takes the lease of a trial that runs: %v", err)
	}
	if said, _ := vm.Command(t, "gresnet status"); !strings.Contains(said, " 67108864 ") {
		t.Errorf("status does not show the trial:\n%s", said)
	}
	if said, code := vm.Command(t, "gresnet try"); code != 1 || !strings.Contains(said, "another gresnet try runs") {
		t.Errorf("a second trial: exit %d: %s", code, said)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "gresnet: interrupted [GN636]") {
		t.Errorf("%v:\n%s", err, out)
	}
	vm.Same(t, before)
}

func TestWhatATrialLeftThatWasKilledIsReturned(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.Slurm(t)
	before := vm.Picture(t)
	for _, after := range []string{"gresnet try", "gresnet cleanup --boot", "gresnet try"} {
		cmd, _ := trying(t)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if out, code := vm.Command(t, after); code != 0 {
			t.Errorf("%s: exit %d: %s", after, code, out)
		}
		if _, err := os.Lstat(trialLease); err == nil {
			t.Errorf("after %s the lease is there", after)
		}
		vm.Same(t, before)
	}
	if left := vm.Run(t, "ls -d /run/gresnet-try /sys/fs/cgroup/gresnet-try 2>/dev/null || true"); left != "" {
		t.Errorf("try leaves %s", left)
	}
}
