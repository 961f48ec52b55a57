package step

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"gresnet/lib/base/config"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/state"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// slotNode is the device node of an HCA that is given in slots: /dev/full.
var slotNode = deviceNode{name: "full", device: bpf.Device{Major: 1, Minor: 7}, slot: true}

// slotJobs are jobs with slots of one HCA.
type slotJobs struct {
	*testing.T
	dir    state.Dir
	guard  bpf.Guard
	notice string // the last one
}

func newSlotJobs(t *testing.T) *slotJobs {
	t.Helper()
	pins := cgrouptest.Pins(t)
	j := &slotJobs{T: t, dir: state.Dir(t.TempDir())}
	if err := j.dir.Make(); err != nil {
		t.Fatal(err)
	}
	for _, tree := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		j.guard = bpf.Guard{Pins: filepath.Join(pins, "gresnet"), Cgroup: tree}
		if j.guard.Try() != nil {
			continue
		}
		j.guard.Cgroup = filepath.Join(tree, "gresnet-"+t.Name())
		if err := os.Mkdir(j.guard.Cgroup, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(j.guard.Cgroup); err != nil {
				t.Errorf("remove a cgroup: %v", err)
			}
		})
		return j
	}
	netnstest.Skip(t, "needs cgroup v2 and a kernel that takes the program")
	return nil
}

func (j *slotJobs) world(job uint32) *world.World {
	return &world.World{Given: world.Given{
		Dir: j.dir.Lease(job), Locks: j.dir.Locks(), Guard: j.guard, Job: job, Budget: poll.Budget{Context: context.Background()},
		Notice: func(format string, a ...any) { j.notice = fmt.Sprintf(format, a...) },
	}}
}

// begin gives a job a slot.
func (j *slotJobs) begin(job uint32, guard string) error {
	j.Helper()
	w := j.world(job)
	if err := os.MkdirAll(w.Dir.Devices(), 0o700); err != nil {
		j.Fatal(err)
	}
	if err := state.MountDevices(w.Dir.Devices()); err != nil {
		j.Fatal(err)
	}
	j.Cleanup(func() { j.end(job) })
	j.notice = ""
	return (&Devices{Guard: guard, UID: 65534}).makeNodes(w, []deviceNode{slotNode})
}

func (j *slotJobs) end(job uint32) {
	j.Helper()
	if err := (&Devices{}).Undo(j.world(job)); err != nil {
		j.Error(err)
	}
}

// expect says for which jobs the HCA is guarded; it is open if there are none.
func (j *slotJobs) expect(want ...uint32) {
	j.Helper()
	is, err := j.guard.Shared(slotNode.device)
	if err != nil || is != (len(want) > 0) {
		j.Errorf("the device is guarded: %v, %v, want jobs %v", is, err, want)
	}
	var jobs []uint32
	if m, err := ebpf.LoadPinnedMap(filepath.Join(j.guard.Pins, "sharers"), nil); err == nil {
		defer m.Close()
		var key struct {
			bpf.Device
			Cgroup uint64
		}
		var holder struct{ Job, Required uint32 }
		for all := m.Iterate(); all.Next(&key, &holder); {
			jobs = append(jobs, holder.Job)
		}
	}
	slices.Sort(jobs)
	if !slices.Equal(jobs, want) {
		j.Errorf("the guard knows the jobs %v, want %v", jobs, want)
	}
}

func (j *slotJobs) must(err error) {
	j.Helper()
	if err != nil {
		j.Fatal(err)
	}
}

func TestAJobThatBeginsAfterTheGuardIsSwitchedOffOpensAGuardedHCA(t *testing.T) {
	j := newSlotJobs(t)
	j.must(j.begin(1, config.GuardRequired))
	j.must(j.begin(2, config.GuardOff))
	j.expect(1, 2)
	j.end(1)
	j.expect(2)
	j.end(2)
	j.must(j.begin(3, config.GuardOff))
	j.expect()
}

func TestAJobThatBeginsAfterTheGuardIsSwitchedOnLocksNoOtherOut(t *testing.T) {
	j := newSlotJobs(t)
	j.must(j.begin(1, config.GuardOff))
	j.must(j.begin(2, config.GuardAuto))
	j.expect()
	if !strings.Contains(j.notice, "job 1 has it and began without the guard") {
		t.Errorf("nobody is told: %q", j.notice)
	}
	if err := j.begin(3, config.GuardRequired); err == nil || !strings.Contains(err.Error(), "began without the guard") {
		t.Errorf("a job that must have a guard begins without: %v", err)
	}
	j.end(3)
	j.end(1)
	j.end(2)
	j.must(j.begin(4, config.GuardAuto))
	j.expect(4)
	if j.notice != "" {
		t.Errorf("notice %q", j.notice)
	}
}

func TestAJobThatCannotJoinTheGuardGetsNoSlotOfAGuardedHCA(t *testing.T) {
	j := newSlotJobs(t)
	j.must(j.begin(1, config.GuardAuto))
	able := j.guard
	j.guard.Cgroup += "-none"
	for _, guard := range []string{config.GuardAuto, config.GuardOff} {
		if err := j.begin(2, guard); err == nil {
			t.Errorf("%s: the job begins, and cannot open its HCA", guard)
		}
		j.expect(1)
		j.end(2)
	}
	j.end(1)
	j.must(j.begin(2, config.GuardAuto))
	j.expect()
	j.guard = able
	j.must(j.begin(3, config.GuardAuto)) // job 2 began without the guard
	j.expect()
}
