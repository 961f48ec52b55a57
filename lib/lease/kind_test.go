package lease

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/part"
	"gresnet/lib/lease/step"
	"gresnet/lib/state/table"
	"gresnet/test/netnstest"
)

// A kind of parts that gresnet does not have, and this file alone: while a job has one, the node has a
// pair of interfaces for it.

var testFake = node.HCA{ID: node.ID{PCI: "0000:3b:00.0", Aux: "fake.1"}, Name: "fake_1"}

const testFakes = "[[hca]]\nindex = 0\npart = \"fake\"\ncount = 2\nmatch = \"pci=3b:00.0\"\n"

func addTestFake() (remove func()) {
	forget := step.Add("fake", "vf", func() step.Step { return new(pair) })
	drop := part.Add(node.PartKind{
		Name: "fake", Title: "FAKE",
		Number: func(id node.ID) string { _, number, _ := strings.Cut(id.Aux, "fake."); return number },
	}, fake{})
	return func() { drop(); forget() }
}

type fake struct{ part.Whole }

// Read adds the step that makes the pair.
func (fake) Read(r *part.Reading) error {
	r.HCA.Before = []step.Step{&pair{ID: r.Entry.HCA.ID, Name: fmt.Sprintf("fake%d", r.Entry.Index)}}
	return nil
}

// pair makes a pair of interfaces on the node.
type pair struct {
	ID   node.ID `json:"hca"`
	Name string  `json:"name"`
}

func (*pair) Kind() string     { return "fake" }
func (s *pair) Object() string { return s.Name }
func (s *pair) HCA() node.ID   { return s.ID }

// Do makes the pair.
func (s *pair) Do(*world.World) error {
	return exec.Command("ip", "link", "add", s.Name, "type", "veth", "peer", "name", s.Name+"peer").Run()
}

// Undo removes the pair, if it is there.
func (s *pair) Undo(*world.World) error {
	if exec.Command("ip", "link", "show", s.Name).Run() != nil {
		return nil
	}
	return exec.Command("ip", "link", "del", s.Name).Run()
}

// testKind returns the claim of a fake, and the steps for it, if a test wants that: as the mapping and the
// kind say.
func testKind(l *Lease, j job.Job) (claims []table.Claim, first []step.Step, err error) {
	if os.Getenv("GRESNET_BED_FAKE") == "" {
		return nil, nil, nil
	}
	cfg, err := config.Parse([]byte(testFakes), "test")
	if err != nil {
		return nil, nil, err
	}
	m, err := gres.Map(cfg, []node.HCA{testFake})
	if err != nil {
		return nil, nil, err
	}
	e, err := part.Of(m[1].Kind()).Decide(cfg, j, m[1])
	if err != nil {
		return nil, nil, err
	}
	h := step.HCA{ID: e.HCA.ID, Name: e.HCA.Name}
	err = part.Of(e.Kind()).Read(&part.Reading{World: l.World, Entry: e, HCA: &h})
	return []table.Claim{{HCA: e.HCA.ID, Name: e.HCA.Name, Job: j.ID, Run: j.Run.String()}}, h.Before, err
}

func TestAKindOfPartsInOneFileGoesThroughAPrologAnEpilogAKillAnywhereAndAStatus(t *testing.T) {
	netnstest.Slow(t)
	t.Setenv("GRESNET_BED_FAKE", "1")
	t.Cleanup(addTestFake())
	bed, state := testBed(t)
	before, job := testPicture(bed), testLease{testJob, nothing}
	job.run(t, bed, state, "prolog", never)
	bed.Run("ip link show fake1")
	if s := fakeStatus(t, bed, state); !strings.Contains(s, "fake_1 is FAKE 1 of 0000:3b:00.0\n") || !strings.Contains(s, "\nleased\n") || !strings.Contains(s, "\nfake fake1\n") {
		t.Errorf("status says\n%s", s)
	}
	job.run(t, bed, state, "epilog", never)
	testSame(t, bed, state, before)
	job.killAnywhere(t, bed, state, 4, func() { testSame(t, bed, state, before) })
}

// fakeStatus returns what status says of HCAs, and what is left to undo.
func fakeStatus(t *testing.T, bed *netnstest.NS, state string) string {
	t.Helper()
	cfg, err := config.Parse([]byte(testFakes), "test")
	if err != nil {
		t.Fatal(err)
	}
	n := testNode(state, never)
	n.Config, n.Proc = cfg, fstest.MapFS{}
	var text strings.Builder
	err = bed.Do(func() error {
		s, err := inspect.ReadStatus(n.Host)
		if err != nil {
			return err
		}
		report.PrintParts(&text, s.HCAs)
		for _, h := range s.HCAs {
			fmt.Fprintln(&text, h.State)
		}
		for _, l := range s.Leases {
			for _, left := range l.Left {
				fmt.Fprintln(&text, left.Kind, left.Object)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}
