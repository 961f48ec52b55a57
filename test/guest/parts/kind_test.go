package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/part"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/test/guest/vm"
)

// A kind of parts that gresnet does not have, and this file alone: a VF goes by it in place of its own
// kind. While a job has one, the node has a dummy interface for it.

func addFake() (remove func()) {
	forget := step.Add("fake", "vf", func() step.Step { return new(dummy) })
	drop := part.Add(node.PartKind{
		Name: "fake", Title: "FAKE", Number: func(id node.ID) string { return id.VF },
	}, fake{})
	return func() { drop(); forget() }
}

type fake struct{ part.Whole }

// Read adds the step that makes the dummy.
func (fake) Read(r *part.Reading) error {
	r.HCA.Before = []step.Step{&dummy{ID: r.Device.ID, Name: "fake" + r.Device.ID.VF}}
	return nil
}

// Make logs what it would make.
func (fake) Make(_ context.Context, m *part.Making) error {
	m.Notice("%d fakes of %s", m.Want.Count, m.Want.Match.Value)
	return nil
}

// Problems returns what check would say.
func (fake) Problems(config.Config, report.Scan) []error { return []error{errors.New("it is a fake")} }

// dummy makes a dummy interface on the node.
type dummy struct {
	ID   node.ID `json:"hca"`
	Name string  `json:"name"`
}

func (*dummy) Kind() string     { return "fake" }
func (s *dummy) Object() string { return s.Name }
func (s *dummy) HCA() node.ID   { return s.ID }

// Do makes the interface.
func (s *dummy) Do(*world.World) error {
	return exec.Command("ip", "link", "add", s.Name, "type", "dummy").Run()
}

// Undo removes the interface, if it is there.
func (s *dummy) Undo(*world.World) error {
	if exec.Command("ip", "link", "show", s.Name).Run() != nil {
		return nil
	}
	return exec.Command("ip", "link", "del", s.Name).Run()
}

const (
	fakeConfig = "/run/fake.toml"
	fakeJob    = 900210
)

// The test binary is also gresnet's programs, with the kind besides. It kills itself when it looks at the
// clock for the n-th time, which is before and after each step.
func init() {
	program := os.Getenv("GRESNET_FAKE")
	if program == "" {
		return
	}
	addFake()
	if err := runFake(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runFake(program string) error {
	cfg, err := config.Load(fakeConfig, true)
	if err != nil {
		return err
	}
	kill, _ := strconv.Atoi(os.Getenv("GRESNET_FAKE_KILL"))
	n := lease.On(&host.Host{
		State: state.Dir("/run/gresnet"), Sys: sysfs.At("/sys"), Proc: os.DirFS("/proc"), Run: os.DirFS("/run"), Dev: "/dev/infiniband",
		CM: "/sys/kernel/config/rdma_cm", Guard: bpf.Node(), Files: os.DirFS("/"), Config: cfg,
		Slurm: host.Slurm{Name: "node1", Conf: os.Getenv("SLURM_CONF")},
		Log:   func(e event.Event) { fmt.Print(e.Notice, "\n") },
		Now: func() time.Time {
			if kill--; kill == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return time.Now()
		},
	})
	n.Undo = time.Minute
	ctx := context.Background()
	switch program {
	case "boot":
		return n.Boot(ctx)
	case "epilog":
		return n.Restore(ctx, fakeJob, nil)
	case "release":
		return n.Release(ctx, os.Getenv("GRESNET_FAKE_HCA"))
	case "status":
		s, err := inspect.ReadStatus(n.Host)
		if err != nil {
			return err
		}
		report.PrintParts(os.Stdout, s.HCAs)
		return report.Print(os.Stdout, s)
	case "check":
		s, _, err := inspect.Inventory(n.Host)
		fmt.Println(part.Problems(cfg, s))
		return err
	}
	j, err := job.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	return n.Take(ctx, j)
}

// faked runs a program with the fake kind, and tells whether it was killed.
func faked(t *testing.T, program string, kill int) (out string, code int, killed bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(strings.Fields(strings.TrimPrefix(vm.SlurmdEnv, "env -i ")), "PATH="+os.Getenv("PATH"),
		fmt.Sprintf("SLURM_JOB_ID=%d", fakeJob), "SLURM_JOB_GPUS=1", "GRESNET_FAKE="+program, fmt.Sprintf("GRESNET_FAKE_KILL=%d", kill), "GRESNET_FAKE_HCA="+os.Getenv("GRESNET_FAKE_HCA"))
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(text), exit.ExitCode(), exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	return string(text), 0, false
}

func mustFake(t *testing.T, program string) string {
	t.Helper()
	out, code, killed := faked(t, program, 0)
	if code != 0 || killed {
		t.Fatalf("%s with the fake kind exits with %d: %s", program, code, out)
	}
	return out
}

// theOthers lists the HCAs that are no PFs: with all HCAs in tables, /dev/infiniband is closed.
func theOthers(t *testing.T) (tables string) {
	t.Helper()
	for n, name := range vm.WithoutPCI(t) {
		tables += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\n", 20+n, name)
	}
	return tables
}

func TestAKindOfPartsInOneFileGoesThroughABootAPrologAnEpilogAKillAndAStatus(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.VF)
	boot(t, inParts(2, "gpus = [0, 1]\n", "gpus = [2, 3]\n")+theOthers(t))
	text := strings.ReplaceAll(inParts(2, "gpus = [0, 1]\n", "gpus = [2, 3]\n"), `"vf"`, `"fake"`) + theOthers(t)
	if err := os.WriteFile(fakeConfig, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { faked(t, "epilog", 0) })
	if out := mustFake(t, "boot"); !strings.Contains(out, "2 fakes of "+rocePF) {
		t.Errorf("boot says\n%s", out)
	}
	if out := mustFake(t, "check"); !strings.Contains(out, "it is a fake") {
		t.Errorf("check says\n%s", out)
	}
	before := vm.Picture(t)
	mustFake(t, "prolog")
	vm.Run(t, "ip link show fake1")
	out := mustFake(t, "status")
	for _, want := range []string{`(?m)^\S+ is FAKE 1 of rocep1s0$`, `"kind": "fake",\s+"object": "fake1"`, `(?s)"vf": "1".*"state": "leased"`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status does not say %s:\n%s", want, out)
		}
	}
	mustFake(t, "epilog")
	vm.SameInAnyOrder(t, before)
	kills := 0
	for _, program := range []string{"prolog", "epilog"} {
		for kill, killed := 1, true; killed; kill++ {
			if program == "epilog" {
				mustFake(t, "prolog")
			}
			if out, code, was := faked(t, program, kill); was {
				kills++
			} else if killed = false; code != 0 {
				t.Fatalf("the %s exits with %d: %s", program, code, out)
			}
			mustFake(t, "epilog")
			vm.SameInAnyOrder(t, before)
			if t.Failed() {
				t.Fatalf("after kill %d of the %s", kill, program)
			}
		}
	}
	if kills < 20 {
		t.Errorf("only %d kills", kills)
	}
	t.Logf("%d kills", kills)
	lostFake(t, before)
}

// lostFake loses the entry that comes before all others.
func lostFake(t *testing.T, before string) {
	t.Helper()
	mustFake(t, "prolog")
	vm.Run(t, fmt.Sprintf(`sed -i '/"kind":"fake"/s/./x/' /run/gresnet/jobs/%d/journal`, fakeJob))
	if out, code, _ := faked(t, "epilog", 0); code == 0 || !strings.Contains(out, "journal damaged: ") {
		t.Errorf("of a lost entry the epilog says, exit code %d:\n%s", code, out)
	}
	out := mustFake(t, "status")
	if !regexp.MustCompile(`(?s)"vf": "1".*"quarantined": "[^"]*journal damaged: `).MatchString(out) {
		t.Errorf("status says\n%s", out)
	}
	vm.Run(t, "ip link del fake1")
	t.Setenv("GRESNET_FAKE_HCA", rocePF+"/vf1")
	mustFake(t, "release")
	vm.SameInAnyOrder(t, before)
}
