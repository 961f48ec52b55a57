package inspect

import (
	"os"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
	"gresnet/test/sitetest"
)

// heldHost returns a node with two HCAs. A job has the first one, which the node has lost.
func heldHost(t *testing.T, toml string) *host.Host {
	t.Helper()
	cfg := sitetest.Parse(t, toml)
	n := &host.Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Proc: fstest.MapFS{}, Config: cfg, Now: time.Now, Log: func(event.Event) {}}
	if err := os.Mkdir(n.State.Locks(), 0o700); err != nil {
		t.Fatal(err)
	}
	update(t, n, func(now *table.Table) {
		now.HCAs = []node.HCA{{ID: leasetest.A, Name: "mlx5_0"}, {ID: leasetest.B, Name: "mlx5_1"}}
		now.Claims = []table.Claim{{HCA: leasetest.A, Name: "mlx5_0", Job: 1, Run: "0"}}
	})
	return n
}

func update(t *testing.T, n *host.Host, change func(*table.Table)) {
	t.Helper()
	err := n.Table().Update(t.Context(), func(now *table.Table) error { change(now); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// An HCA that did not come up at boot is no reason not to show the others.
func TestTheStatusOfANodeThatMissesAnHCA(t *testing.T) {
	const first = "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_1\"\n[[hca]]\nindex = 1\nmatch = "
	n := heldHost(t, first+"\"rdma=mlx5_7\"\n")
	s, err := ReadStatus(n)
	if err != nil || s.Drift != nil || len(s.HCAs) != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if got := s.HCAs[1]; got.Name != "mlx5_1" || got.Gres != "nic" {
		t.Errorf("the HCA that is there is %+v", got)
	}
	if got := s.HCAs[2]; got.State != Missing || got.Gres != "nic" || got.Number() != 1 {
		t.Errorf("the one that is missing is %+v", got)
	}
	n = heldHost(t, first+"\"pci=11:00.0\"\n")
	update(t, n, func(now *table.Table) { now.HCAs[1].ID.PCI = "0000:11:00.0" })
	s, err = ReadStatus(n)
	if err != nil || s.Drift == nil || len(s.HCAs) != 2 || s.HCAs[0].Claim == nil {
		t.Errorf("of two entries for one: %+v, %v", s, err)
	}
}

func TestStatusSaysWhichPKeyAJobsInterfaceHasAndWhichTheNextJobGets(t *testing.T) {
	const slots = "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_1\"\npart = \"pkey\"\ncount = 4\n"
	n := heldHost(t, slots+"pkey = 0x8001\n[[policy]]\naccount = \"physics\"\npkey = 0x8002\n")
	slot := func(number string) node.ID { id := leasetest.B; id.Slot = number; return id }
	update(t, n, func(now *table.Table) {
		now.Claims = []table.Claim{{HCA: slot("1"), Job: 7, Run: "0"}, {HCA: slot("2"), Job: 8, Run: "0"}, {HCA: slot("3"), Job: 7, Run: "old"}}
	})
	for _, job := range []uint32{7, 8} {
		l := n.State.Lease(job)
		if err := os.MkdirAll(string(l), 0o700); err != nil {
			t.Fatal(err)
		}
		j, err := journal.Create(l.Journal(), journal.Header{Job: job, Run: "0"})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if err := j.Add("child", &step.Child{Of: slot("1"), Name: "ib1", Type: "ipoib", PKey: 0x8002}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := ReadStatus(n)
	if err != nil {
		t.Fatal(err)
	}
	var got []node.PKeyText
	for _, h := range s.HCAs {
		got = append(got, h.PKey)
	}
	// mlx5_0 is whole, slot 0 is free, and job 8 has the entry of no interface of its slot's.
	if want := []node.PKeyText{0, 0x8001, 0x8002, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("P_Keys are %v, want %v", got, want)
	}
}
