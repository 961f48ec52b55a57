package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/proc"
	"gresnet/test/golden"
)

// sick returns a node of a bad night, with one HCA and one lease of each kind.
func sick() *report.Status {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	hca := func(name, gres string, index int, c *report.Claim) report.HCA {
		h := report.HCA{Name: name, ID: node.ID{GUID: "0002:c903:00ab:cdef", PCI: "0000:e1:00.1"}, Claim: c}
		h.Have(gres, "", index)
		return h
	}
	whole := func(n int) report.HCA {
		return hca("mlx5_"+string(rune('0'+n)), "nic", n, &report.Claim{Job: 4294967293, UID: 4294967294, Since: at})
	}
	moving := hca("rocep226s0f1", "nic", 6, &report.Claim{Job: 4700, UID: 1000, Since: at, Quarantined: "move rdma rocep226s0f1: no answer in 20s"})
	moving.Moving = true
	gone := hca("mlx5_9", "nic", 9, nil)
	gone.Gone = true
	vf := hca("mlx5_14", "nic", 14, nil)
	vf.ID = node.ID{PCI: "0000:e1:00.1", VF: "3"}
	slot := func(number string, index int, k node.PKeyText, c *report.Claim) report.HCA {
		h := hca("ibp227s0", "nic", index, c)
		h.ID.Slot, h.PKey = number, k
		return h
	}
	missing := report.HCA{Gres: "nic", Index: new(10), Missing: "map nic 10 (rdma=mlx5_10): the node has no such HCA; it has none"}
	s := &report.Status{
		HCAs: []report.HCA{
			whole(0), whole(1), whole(3),
			hca("rocep225s0f1", "nic", 4, &report.Claim{Job: 4294967293, UID: 4294967294, Since: at}),
			hca("ibp225s0f07", "nic", 15, &report.Claim{Job: 4711, UID: 1000, Since: at, Quarantined: "another interface has the name of ib0"}),
			moving,
			slot("0", 16, 0x8001, nil), slot("1", 17, 0x8002, &report.Claim{Job: 4711, UID: 1000, Since: at}),
			slot("2", 18, 0x8001, nil), slot("3", 19, 0x8001, nil), slot("4", 20, 0, nil),
			hca("mlx5_7", "nic", 7, nil),
			hca("mlx5_8", "", 0, nil),
			gone,
			vf,
			missing,
		},
		Leases: []report.Lease{
			{Job: 4294967293, Run: "12/sABCDEFGHJKMNP", State: inspect.Complete, Age: 49*time.Hour + 59*time.Minute, Uplink: "192.168.100.200", Steps: []proc.Process{
				{PID: 4194303, Name: "slurmstepd: [4294967293.extern]"}, {PID: 4194304, Name: "slurmstepd: [4294967293.0]"},
			}, Left: []report.Step{{Kind: "claim"}, {Kind: "namespace"}, {Kind: "uplink", Object: "macvlan 192.168.100.200"}, {Kind: "rdma", Object: "mlx5_0"}}},
			{Job: 4711, Run: "0", State: inspect.Partial, Age: 3*time.Hour + 7*time.Minute + 20*time.Second, Left: []report.Step{{Kind: "claim"}}},
			{Job: 4712, Run: "0", State: inspect.Refused, Age: 90 * time.Second},
			{Job: 4713, Run: "", State: inspect.Damaged, Age: 100 * time.Millisecond},
		},
	}
	for i, h := range s.HCAs {
		s.HCAs[i].State = inspect.StateOf(h)
	}
	return s
}

func TestStatusFitsATerminalAtThreeAtNight(t *testing.T) {
	text := golden.Printed(t, sick().Table)
	golden.Check(t, "status.txt", text)
	golden.Fits(t, text)
	golden.Check(t, "status-none.txt", golden.Printed(t, (&report.Status{HCAs: sick().HCAs[11:]}).Table))
}

func TestStatusOfAJobSaysWhatItsEpilogWillUndo(t *testing.T) {
	var all strings.Builder
	for _, id := range []uint32{4294967293, 4711, 4712} {
		text := golden.Printed(t, func(w io.Writer) error {
			s, err := ofJob(sick(), id)
			if err != nil {
				t.Fatal(err)
			}
			return s.JobTable(w, id)
		})
		golden.Fits(t, text)
		all.WriteString(text + "\n")
	}
	golden.Check(t, "status-job.txt", all.String())
	_, err := ofJob(sick(), 7)
	if err == nil || err.Error() != "job 7 has no lease here" {
		t.Errorf("a job without a lease: %v", err)
	}
}

func TestStatusIsReadByMachines(t *testing.T) {
	s := sick()
	s.HCAs, s.Leases = append(s.HCAs[4:6:6], s.HCAs[7]), s.Leases[:1]
	for i := range s.HCAs {
		s.HCAs[i].Claim.Since = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	}
	golden.Check(t, "status.json", golden.Printed(t, func(w io.Writer) error { return report.Print(w, s) }))
}
