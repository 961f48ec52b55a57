package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"gresnet/lib/base/hint"
	"gresnet/test/await"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// TestMain lets the test binary be a process that opens a device, or one that replaces the program
// until it is killed.
func TestMain(m *testing.M) {
	if pins := os.Getenv("GRESNET_REPLACE"); pins != "" {
		g := Guard{Pins: pins, Cgroup: os.Getenv("GRESNET_CGROUP")}
		for {
			err := errors.Join(g.Share(2, []Device{{1, 5}}, true), g.Forget(2))
			fmt.Println("replaced", err)
			if err != nil {
				os.Exit(1)
			}
		}
	}
	if path := os.Getenv("GRESNET_OPEN"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		f.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// full is a device that any process may open: /dev/full.
var full = Device{1, 7}

// guard returns a guard of a part of this machine's cgroup tree.
func guard(t *testing.T) Guard {
	t.Helper()
	pins := cgrouptest.Pins(t)
	for _, tree := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		root := filepath.Join(tree, "gresnet-"+strings.ReplaceAll(t.Name(), "/", "-"))
		g := Guard{Pins: filepath.Join(pins, "gresnet"), Cgroup: tree}
		if g.Possible() != nil {
			continue
		}
		g.Cgroup = root
		makeCgroup(t, root)
		if err := g.Try(); err != nil {
			netnstest.Skip(t, "needs a kernel that takes the program: "+err.Error())
		}
		return g
	}
	netnstest.Skip(t, "needs cgroup v2")
	return Guard{}
}

// makeCgroup makes a cgroup that goes with the test and returns its id.
func makeCgroup(t *testing.T, path string) uint64 {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			t.Errorf("remove a cgroup: %v", err)
		}
	})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// opens tells whether a process in a cgroup can open /dev/full.
func opens(t *testing.T, cgroup string, uid uint32) bool {
	t.Helper()
	fd, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	self, err := os.Open("/proc/self/exe") // users may not reach the file by its name
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = []string{"GRESNET_OPEN=/dev/full"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: int(fd.Fd()),
		Credential: &syscall.Credential{Uid: uid, Gid: uid},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "operation not permitted") {
		t.Fatalf("open as %d in %s: %v: %s", uid, cgroup, err, out)
	}
	return err == nil
}

// allow is what the SPANK plugin does.
func allow(t *testing.T, g Guard, d Device, e entry) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(g.devices(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Update(d, e, ebpf.UpdateExist); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheJobsCgroupOpensAGuardedDevice(t *testing.T) {
	g := guard(t)
	first := filepath.Join(g.Cgroup, "job_1")
	own := makeCgroup(t, first)
	task := filepath.Join(first, "step_0")
	makeCgroup(t, task)
	second := filepath.Join(g.Cgroup, "job_2")
	makeCgroup(t, second)
	const user = 65534
	processes := []struct {
		name, cgroup string
		uid          uint32
	}{
		{"the job", first, user},
		{"its step", task, user},
		{"another job", second, user},
		{"outside of jobs", g.Cgroup, user},
		{"root", second, 0},
	}
	for _, tt := range []struct {
		name   string
		cgroup uint64
		want   string // of the processes
	}{
		{"nobody's", nobody, "root"},
		{"the job's", own, "the job, its step, root"},
		{"anybody's", anybody, "the job, its step, another job, outside of jobs, root"},
	} {
		if err := g.Protect(1, []Device{full}, true); err != nil {
			t.Fatal(err)
		}
		allow(t, g, full, entry{Cgroup: tt.cgroup, Job: 1})
		var got []string
		for _, p := range processes {
			if opens(t, p.cgroup, p.uid) {
				got = append(got, p.name)
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: it is opened by %q, want %q", tt.name, got, tt.want)
		}
	}
	if err := g.Forget(1); err != nil {
		t.Fatal(err)
	}
	if !opens(t, second, user) {
		t.Error("a device that is not guarded any more is not opened")
	}
}

// What a trial does in the place of the SPANK plugin must come to the same.
func TestAllowOpensAJobsDevicesToItsCgroupAlone(t *testing.T) {
	g := guard(t)
	own, other := filepath.Join(g.Cgroup, "job_1"), filepath.Join(g.Cgroup, "job_2")
	id := makeCgroup(t, own)
	makeCgroup(t, other)
	if guarded, err := g.Allow(1, id); err != nil || guarded {
		t.Errorf("without a guard: %t, %v", guarded, err)
	}
	for _, protect := range []func(uint32, []Device, bool) error{g.Protect, g.Share} {
		if err := protect(1, []Device{full}, true); err != nil {
			t.Fatal(err)
		}
		if guarded, err := g.Allow(2, id); err != nil || guarded || opens(t, own, user) {
			t.Errorf("another job's: %t, %v", guarded, err)
		}
		if guarded, err := g.Allow(1, id); err != nil || !guarded {
			t.Errorf("the job's: %t, %v", guarded, err)
		}
		if !opens(t, own, user) || opens(t, other, user) {
			t.Errorf("the job's cgroup opens the device: %t, another one: %t", opens(t, own, user), opens(t, other, user))
		}
		if err := g.Forget(1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheGuardIsThereWhileAnyDeviceIs(t *testing.T) {
	g := guard(t)
	other := Device{231, 192}
	there := func(want bool) {
		t.Helper()
		_, err := os.Lstat(g.Pins)
		if programs := cgrouptest.DevicePrograms(t, g.Cgroup); (programs == 1) != want || programs > 1 || errors.Is(err, fs.ErrNotExist) == want {
			t.Fatalf("%d programs, pins: %v; the guard is to be there: %v", programs, err, want)
		}
	}
	there(false)
	for range 2 { // a prolog that comes again finds what is there
		if err := g.Protect(1, []Device{full, {1, 5}}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Protect(2, []Device{other}, true); err != nil {
		t.Fatal(err)
	}
	there(true)
	for range 2 { // and so does an epilog
		if err := g.Forget(1); err != nil {
			t.Fatal(err)
		}
		there(true)
	}
	m, err := ebpf.LoadPinnedMap(g.devices(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var e entry
	if err := m.Lookup(other, &e); err != nil || e != (entry{Job: 2, Required: 1}) {
		t.Errorf("the other job's device: %+v, %v", e, err)
	}
	if err := m.Lookup(full, &e); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("the job's own device is there still: %+v, %v", e, err)
	}
	m.Close()
	for range 2 {
		if err := g.Forget(2); err != nil {
			t.Fatal(err)
		}
		there(false)
	}
}

// What a kill, or a person, leaves of a guard.
func TestAHalfGuardIsMadeWholeOrTakenAway(t *testing.T) {
	g := guard(t)
	for _, left := range []struct {
		name string
		lost []string
	}{
		{"directory alone", []string{g.program(), g.devices()}},
		{"map alone", []string{g.program()}},
		{"program alone", []string{g.devices()}},
	} {
		for _, next := range []string{"protect", "forget", "forget another job"} {
			t.Run(left.name+", then "+next, func(t *testing.T) {
				if err := g.Protect(1, []Device{full}, true); err != nil {
					t.Fatal(err)
				}
				for _, path := range left.lost {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
				// Without its pin a program ends some time after.
				await.Until(t, "a program without a pin has ended", func() bool {
					return !slices.Contains(left.lost, g.program()) || cgrouptest.DevicePrograms(t, g.Cgroup) == 0
				})
				if next == "protect" {
					if err := g.Protect(1, []Device{full}, true); err != nil {
						t.Fatal(err)
					}
				}
				if next == "forget another job" {
					if err := g.Forget(2); err != nil {
						t.Fatal(err)
					}
				}
				if next == "protect" || next == "forget another job" && left.name == "map alone" {
					if cgrouptest.DevicePrograms(t, g.Cgroup) != 1 || opens(t, g.Cgroup, 65534) {
						t.Error("the device is not guarded")
					}
				}
				if err := g.Forget(1); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Lstat(g.Pins); !errors.Is(err, fs.ErrNotExist) || cgrouptest.DevicePrograms(t, g.Cgroup) != 0 || !opens(t, g.Cgroup, 65534) {
					t.Errorf("something is left: %v", err)
				}
			})
		}
	}
}

func TestOthersProgramsStayWhatTheyAre(t *testing.T) {
	g := guard(t)
	job := filepath.Join(g.Cgroup, "job_1")
	makeCgroup(t, job)
	// As Slurm attaches its own: exclusively, without a link.
	m, err := newMap[Device, entry]()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	own, err := newProgram(m, none)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ebpf.NewProgramFromFD(int(own))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	dir, err := os.Open(job)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	slurms := link.RawAttachProgramOptions{Target: int(dir.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice}
	for _, order := range []string{"before", "after"} {
		if order == "before" {
			if err := link.RawAttachProgram(slurms); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Protect(1, []Device{full}, true); err != nil {
			t.Fatalf("Slurm's program attached %s: %v", order, err)
		}
		if order == "after" {
			if err := link.RawAttachProgram(slurms); err != nil {
				t.Fatalf("attach as Slurm does below the guard: %v", err)
			}
		}
		if cgrouptest.DevicePrograms(t, job) != 1 || opens(t, job, 65534) {
			t.Errorf("Slurm's program attached %s: %d of its own, or the guard does not count", order, cgrouptest.DevicePrograms(t, job))
		}
		if err := g.Forget(1); err != nil {
			t.Fatal(err)
		}
		if cgrouptest.DevicePrograms(t, job) != 1 {
			t.Errorf("Slurm's program went with the guard")
		}
		err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: int(dir.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestANodeWithoutWhatItTakesIsTold(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		g    Guard
		want string
	}{
		{Guard{Pins: dir + "/gresnet", Cgroup: dir}, dir + " is not cgroup v2's root"},
		{Guard{Pins: dir + "/gresnet", Cgroup: dir + "/none"}, "statfs " + dir + "/none: no such file or directory"},
	} {
		if err := tt.g.Protect(1, []Device{full}, true); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
		if err := tt.g.Forget(1); err != nil {
			t.Errorf("forget where there never was a guard: %v", err)
		}
	}
}

// Where all may write to the BPF file system, as its default mode lets them.
func TestAUsersFolderOfPinsIsNoGuard(t *testing.T) {
	for name, prepare := range map[string]func(g Guard) error{
		"a user's": func(g Guard) error {
			return errors.Join(os.Mkdir(g.Pins, 0o777), os.Chown(g.Pins, 65534, 65534))
		},
		"a user's, with pins": func(g Guard) error {
			if err := os.Mkdir(g.Pins, 0o700); err != nil {
				return err
			}
			m, err := newMap[Device, entry]()
			if err != nil {
				return err
			}
			defer m.Close()
			// The name of a program, whatever it is, kept the guard's own from being attached.
			err = errors.Join(m.pin(g.devices()), m.pin(g.program()))
			return errors.Join(err, os.Chown(g.devices(), 65534, 65534), os.Chown(g.program(), 65534, 65534), os.Chown(g.Pins, 65534, 65534))
		},
		"a link":                    func(g Guard) error { return os.Symlink("/tmp", g.Pins) },
		"root's that all may write": func(g Guard) error { return errors.Join(os.Mkdir(g.Pins, 0o700), os.Chmod(g.Pins, 0o777)) },
		"root's that all may read":  func(g Guard) error { return os.Mkdir(g.Pins, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			if err := errors.Join(os.Chmod(filepath.Dir(g.Pins), os.ModeSticky|0o777), prepare(g)); err != nil {
				t.Fatal(err)
			}
			if err := g.Protect(1, []Device{full}, false); err != nil {
				t.Fatalf("protect: %v", err)
			}
			if opens(t, g.Cgroup, 65534) {
				t.Error("a user opens a guarded device")
			}
			info, err := os.Lstat(g.Pins)
			if err != nil || info.Mode() != os.ModeDir|0o700 || info.Sys().(*syscall.Stat_t).Uid != 0 {
				t.Errorf("the folder is %v, %v", info, err)
			}
			if err := g.Forget(1); err != nil {
				t.Errorf("forget: %v", err)
			}
			if left, err := filepath.Glob(g.Pins + "*"); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

func TestForgetLeavesWhatIsNoGuardAlone(t *testing.T) {
	g := guard(t)
	if err := errors.Join(os.Mkdir(g.Pins, 0o700), os.Symlink("/etc/passwd", g.devices()), os.Chown(g.Pins, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if err := g.Forget(1); err != nil {
		t.Errorf("forget: %v", err)
	}
}

func TestABPFFileSystemInWhichUsersRenameIsNoPlaceForAGuard(t *testing.T) {
	g := guard(t)
	if err := os.Chmod(filepath.Dir(g.Pins), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := g.Possible(); err == nil || hint.Of(err) == "" {
		t.Errorf("possible: %v", err)
	}
}
