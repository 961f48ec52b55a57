package bpf

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"gresnet/test/await"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
	"gresnet/test/seed"
)

const user = 65534

// share is what the SPANK plugin does for a device that several jobs have.
func share(t *testing.T, g Guard, d Device, job uint32, cgroup uint64) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(g.sharers(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Update(sharer{d, cgroup}, holder{Job: job}, ebpf.UpdateAny); err != nil {
		t.Fatal(err)
	}
}

func TestTheJobsThatShareADeviceOpenItAndNoOthersDo(t *testing.T) {
	g := guard(t)
	cgroups, ids := map[string]string{}, map[string]uint64{}
	for _, name := range []string{"first", "second", "third"} {
		cgroups[name] = filepath.Join(g.Cgroup, name)
		ids[name] = makeCgroup(t, cgroups[name])
	}
	task := filepath.Join(cgroups["second"], "step_0")
	makeCgroup(t, task)
	opened := func() string {
		var by []string
		for _, name := range []string{"first", "second", "third"} {
			if opens(t, cgroups[name], user) {
				by = append(by, name)
			}
		}
		if opens(t, task, user) {
			by = append(by, "task of second")
		}
		if !opens(t, cgroups["third"], 0) {
			by = append(by, "not root")
		}
		return strings.Join(by, ", ")
	}
	expect := func(when, want string) {
		t.Helper()
		if got := opened(); got != want {
			t.Errorf("%s it is opened by %q, want %q", when, got, want)
		}
		if n := cgrouptest.DevicePrograms(t, g.Cgroup); n > 1 {
			t.Errorf("%s there are %d programs", when, n)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(g.Protect(9, []Device{{1, 5}}, true)) // a job with an HCA of its own, from before
	for range 2 {
		must(g.Share(1, []Device{full}, true))
	}
	expect("before the plugin has told the cgroup,", "")
	share(t, g, full, 1, ids["first"])
	expect("with one job", "first")
	must(g.Share(2, []Device{full}, false))
	expect("while the second job has no cgroup,", "first")
	share(t, g, full, 2, ids["second"])
	expect("with two jobs", "first, second, task of second")
	must(g.Forget(1))
	expect("without the first", "second, task of second")
	share(t, g, full, 2, anybody)
	expect("with a job that has no cgroup of its own", "first, second, third, task of second")
	for range 2 {
		must(g.Forget(2))
		expect("without jobs", "first, second, third, task of second")
	}
	if _, err := os.Lstat(g.sharers()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the map of sharers is there without any: %v", err)
	}
	must(g.Share(3, []Device{full}, true))
	expect("with a new job", "")
	must(g.Forget(3))
	must(g.Forget(9))
	if _, err := os.Lstat(g.Pins); !errors.Is(err, fs.ErrNotExist) || cgrouptest.DevicePrograms(t, g.Cgroup) != 0 {
		t.Errorf("something is left: %v", err)
	}
}

// What a kill leaves of a guard with sharers.
func TestAHalfGuardWithSharersIsMadeWholeOrTakenAway(t *testing.T) {
	g := guard(t)
	for name, lost := range map[string][]string{
		"no program":    {g.program()},
		"no sharers":    {g.sharers()},
		"no devices":    {g.devices()},
		"sharers alone": {g.devices(), g.program()},
		"all":           nil,
	} {
		for _, next := range []string{"share", "forget"} {
			t.Run(name+", then "+next, func(t *testing.T) {
				if err := g.Share(1, []Device{full}, true); err != nil {
					t.Fatal(err)
				}
				for _, path := range lost {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
				// Without its pin a program ends some time after.
				await.Until(t, "a program without a pin has ended", func() bool {
					return !slices.Contains(lost, g.program()) || cgrouptest.DevicePrograms(t, g.Cgroup) == 0
				})
				if next == "share" {
					if err := g.Share(2, []Device{full}, true); err != nil {
						t.Fatal(err)
					}
					if opens(t, g.Cgroup, user) {
						t.Error("the device is not guarded")
					}
				}
				for _, job := range []uint32{1, 2} {
					if err := g.Forget(job); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := os.Lstat(g.Pins); !errors.Is(err, fs.ErrNotExist) || !opens(t, g.Cgroup, user) {
					t.Errorf("something is left: %v", err)
				}
			})
		}
	}
}

// The first job with a slot has the program replaced by one that knows the map of sharers.
func TestAKillWhileTheProgramIsReplacedOpensNoDevice(t *testing.T) {
	netnstest.Slow(t)
	g := guard(t)
	if err := g.Protect(1, []Device{full}, true); err != nil {
		t.Fatal(err)
	}
	for i := range 250 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"GRESNET_REPLACE=" + g.Pins, "GRESNET_CGROUP=" + g.Cgroup}
		said, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		first, err := bufio.NewReader(said).ReadString('\n')
		if err != nil || first != "replaced <nil>\n" {
			t.Fatalf("the process that is killed says %q, %v", first, err)
		}
		// The kill comes at some moment of the next round, which takes no longer than the first.
		time.Sleep(time.Duration(seed.IntN(int(time.Since(begun)))))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("it ended before it was killed: %v", cmd.ProcessState)
		}
		if opens(t, g.Cgroup, user) {
			t.Fatalf("after %d kills a user opens a guarded device", i+1)
		}
		if n := cgrouptest.DevicePrograms(t, g.Cgroup); n != 1 {
			t.Fatalf("after %d kills there are %d programs", i+1, n)
		}
	}
	for _, job := range []uint32{1, 2} {
		if err := g.Forget(job); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(g.Pins); !errors.Is(err, fs.ErrNotExist) || cgrouptest.DevicePrograms(t, g.Cgroup) != 0 {
		t.Errorf("something is left: %v", err)
	}
}

func TestAProgramIsAttachedAgainWhereSomebodyHasDetachedIt(t *testing.T) {
	g := guard(t)
	if err := g.Protect(1, []Device{{1, 5}}, true); err != nil {
		t.Fatal(err)
	}
	l, err := openPin(g.program())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.detach(), l.Close(), g.Share(2, []Device{full}, true)); err != nil {
		t.Fatal(err)
	}
	if opens(t, g.Cgroup, user) || cgrouptest.DevicePrograms(t, g.Cgroup) != 1 {
		t.Error("the device is not guarded")
	}
	if err := errors.Join(g.Forget(1), g.Forget(2)); err != nil {
		t.Fatal(err)
	}
}
