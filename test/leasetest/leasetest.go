// Package leasetest has the steps of a lease, for tests of what becomes of it.
package leasetest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/network"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

// The HCAs of the lease.
var (
	A, B, C = node.ID{GUID: "a"}, node.ID{GUID: "b"}, node.ID{GUID: "c"}
	HCAs    = []node.HCA{
		{ID: A, Name: "A", Ports: []node.Port{{Num: 1, Interface: "ibA"}}},
		{ID: B, Name: "B", Ports: []node.Port{{Num: 1, Interface: "roceB"}, {Num: 2}}},
		{ID: C, Name: "C"},
	}
)

// Steps returns the steps of a lease of A, B and C, in exclusive mode. By their numbers in the journal:
//
// 1 is the claim, 2 the namespace; 3 access A, 4 settings, 5 access B, 6 settings,
// 7 access C; 8 rdma A, 9 rdma B, 10 link A, 11 rdma C, 12 link B; 13 the devices.
// 14 is the overlay, whose place among them is of no matter.
func Steps() []step.Step {
	claim := &step.Claim{}
	var hcas []step.HCA
	for _, h := range HCAs {
		claim.Claims = append(claim.Claims, table.Claim{HCA: h.ID, Name: h.Name, Job: 1, Run: "0"})
		taken := step.HCA{ID: h.ID, Name: h.Name, Access: &step.Access{ID: h.ID, Name: h.Name}}
		if h.Ports != nil {
			taken.Interfaces = []*step.Settings{{
				Of: h.ID, Port: 1, Interface: link.ID{Address: h.Name}, Settings: snapshot.Settings{Own: link.Own{Name: h.Ports[0].Interface}},
			}}
		}
		hcas = append(hcas, taken)
	}
	steps := append([]step.Step{claim}, step.Plan(job.Job{}, rdma.Exclusive, config.Access{}, nil, nil, hcas)...)
	return append(steps, &network.Overlay{})
}

// GUIDs prints identities.
func GUIDs(ids []node.ID) string {
	var list []string
	for _, id := range ids {
		list = append(list, id.GUID)
	}
	return strings.Join(list, " ")
}

// Write writes the journal of a lease of HCAs; back lists those that are on the node again.
func Write(t *testing.T, dir state.Dir, id uint32, since time.Duration, hcas []node.ID, back ...node.ID) {
	t.Helper()
	lease := dir.Lease(id)
	if err := os.RemoveAll(string(lease)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(string(lease), 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Create(lease.Journal(), journal.Header{Job: id, Run: "0", Since: since})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	claim := &step.Claim{}
	for _, h := range hcas {
		claim.Claims = append(claim.Claims, table.Claim{HCA: h, Name: h.GUID, Job: id, Run: "0"})
	}
	if err := j.Add("claim", claim); err != nil { // its number is 1
		t.Fatal(err)
	}
	for i, h := range hcas {
		err := j.Add("access", &step.Access{ID: h})
		if err == nil && slices.Contains(back, h) {
			err = j.MarkUndone(i + 2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
