package inspect

import (
	"os"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/config"
	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/node"
	"gresnet/lib/state"
	"gresnet/lib/table"
	"gresnet/test/leasetest"
)

// heldHost is a node with two HCAs of which a job has the first. Nothing of it is there.
func heldHost(t *testing.T, toml string) *host.Host {
	t.Helper()
	cfg, err := config.Parse([]byte(toml), "test.toml")
	if err != nil {
		t.Fatal(err)
	}
	n := &host.Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Proc: fstest.MapFS{}, Config: cfg, Now: time.Now, Log: func(event.Event) {}}
	if err := os.Mkdir(n.State.Locks(), 0o700); err != nil {
		t.Fatal(err)
	}
	update(t, n, func(now *table.Table) {
		now.HCAs = []node.HCA{{ID: leasetest.A, Name: "mlx5_0"}, {ID: leasetest.B, Name: "mlx5_1"}}
		now.Claims = []table.Claim{{HCA: leasetest.A, Name: "mlx5_0", Gres: "nic", Job: 1, Run: "0"}}
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
	if got := s.HCAs[1]; got.HCA.Name != "mlx5_1" || got.Gres != "nic" {
		t.Errorf("the HCA that is there is %+v", got)
	}
	if got := s.HCAs[2]; got.State() != Missing || got.Gres != "nic" || got.Index != 1 {
		t.Errorf("the one that is missing is %+v", got)
	}
	n = heldHost(t, first+"\"pci=11:00.0\"\n")
	update(t, n, func(now *table.Table) { now.HCAs[1].ID.PCI = "0000:11:00.0" })
	s, err = ReadStatus(n)
	if err != nil || s.Drift == nil || len(s.HCAs) != 2 || s.HCAs[0].Claim == nil {
		t.Errorf("of two entries for one: %+v, %v", s, err)
	}
}
