package step_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/network"
)

func hca(name, kind, interfaceName string, keep bool) step.HCA {
	id := node.ID{GUID: name}
	return step.HCA{
		ID: id, Name: name, Keep: keep,
		Access:     &step.Access{ID: id, Name: name},
		Interfaces: []*step.Settings{{Of: id, Port: 1, Interface: link.ID{Kind: kind}, Settings: snapshot.Settings{Own: link.Own{Name: interfaceName}}}},
	}
}

var verbs = config.Access{Guard: config.GuardRequired}

func names(steps []step.Step) string {
	var words []string
	for _, s := range steps {
		words = append(words, strings.TrimSpace(s.Kind()+" "+s.Object()))
	}
	return strings.Join(words, ", ")
}

func TestTheOrderOfTaking(t *testing.T) {
	roce, ib := hca("mlx5_0", "", "eth1", false), hca("mlx5_1", "ipoib", "ib0", false)
	roce2, bare := hca("mlx5_2", "", "eth2", false), hca("mlx5_3", "", "", false)
	bare.Interfaces = nil
	keptRoCE, keptIB := hca("mlx5_0", "", "eth1", true), hca("mlx5_1", "ipoib", "ib0", true)
	tests := []struct {
		name string
		mode rdma.Mode
		hcas []step.HCA
		want string
	}{
		{"shared: the RDMA device stays", rdma.Shared, []step.HCA{roce},
			"namespace, access mlx5_0, settings eth1, link eth1, devices"},
		{"exclusive: RDMA device before interface", rdma.Exclusive, []step.HCA{roce},
			"namespace, access mlx5_0, settings eth1, rdma mlx5_0, link eth1, devices"},
		{"all RDMA devices, while the interfaces of those before move, device nodes last", rdma.Exclusive, []step.HCA{roce, roce2, bare, roce},
			"namespace, access mlx5_0, settings eth1, access mlx5_2, settings eth2, access mlx5_3, access mlx5_0, settings eth1, " +
				"rdma mlx5_0, rdma mlx5_2, rdma mlx5_3, rdma mlx5_0, link eth1, link eth2, link eth1, devices"},
		{"but interfaces that are made again first", rdma.Exclusive, []step.HCA{roce, ib, ib, roce},
			"namespace, access mlx5_0, settings eth1, access mlx5_1, settings ib0, access mlx5_1, settings ib0, access mlx5_0, settings eth1, " +
				"rdma mlx5_0, link eth1, rdma mlx5_1, link ib0, rdma mlx5_1, link ib0, rdma mlx5_0, link eth1, devices"},
		{"a kept interface is not touched", rdma.Exclusive, []step.HCA{keptRoCE},
			"namespace, access mlx5_0, rdma mlx5_0, devices"},
		{"a kept IPoIB interface is made again by the move", rdma.Exclusive, []step.HCA{keptIB},
			"namespace, access mlx5_1, settings ib0, rdma mlx5_1, link ib0, devices"},
		{"but not in shared mode", rdma.Shared, []step.HCA{keptIB},
			"namespace, access mlx5_1, devices"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(step.Plan(job.Job{}, tt.mode, verbs, nil, nil, tt.hcas)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAnUplinkAndAnOverlayAreMadeBeforeTheFirstHCAIsTouched(t *testing.T) {
	over := &network.Overlay{Name: "job0", Address: "198.18.0.1/16"}
	up := &network.Uplink{Type: "veth", Address: netip.MustParseAddr("10.0.0.2")}
	got := names(step.Plan(job.Job{}, rdma.Shared, verbs, up, over, []step.HCA{hca("mlx5_0", "", "eth1", false)}))
	if want := "namespace, overlay job0, uplink veth 10.0.0.2, access mlx5_0, settings eth1, link eth1, devices"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatAPFDoesForAVFComesBeforeAllElse(t *testing.T) {
	vf, whole := hca("mlx5_4", "", "eth4", false), hca("mlx5_0", "", "eth1", false)
	vf.Before = []step.Step{&step.VF{Name: "mlx5_4"}}
	steps := step.Plan(job.Job{}, rdma.Shared, verbs, nil, nil, []step.HCA{whole, vf})
	if got, want := names(steps), "vf mlx5_4, namespace, access mlx5_0, settings eth1, access mlx5_4, settings eth4, link eth1, link eth4, devices"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// It may bring the link of a trusted VF back, and needs the VF's own MAC to be restored.
	slices.SortStableFunc(steps, func(a, b step.Step) int { return step.Rank(a) - step.Rank(b) })
	if got, want := names(steps), "link eth1, link eth4, settings eth1, settings eth4, vf mlx5_4, access mlx5_0, access mlx5_4, devices, namespace"; got != want {
		t.Errorf("it is undone as %s\nwant %s", got, want)
	}
}

func TestWhatIsUndoneFirstIsAPropertyOfTheKind(t *testing.T) {
	steps := append([]step.Step{&step.Claim{}}, step.Plan(job.Job{}, rdma.Exclusive, verbs, &network.Uplink{Type: "veth", Address: netip.MustParseAddr("10.0.0.2")}, &network.Overlay{Name: "job0", Address: "198.18.0.1/16"}, []step.HCA{hca("mlx5_0", "ipoib", "ib0", false)})...)
	slices.SortStableFunc(steps, func(a, b step.Step) int { return step.Rank(a) - step.Rank(b) })
	want := "uplink veth 10.0.0.2, overlay job0, rdma mlx5_0, link ib0, settings ib0, access mlx5_0, devices, namespace, claim"
	if got := names(steps); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnInterfaceForAPartitionIsMadeAfterItsHCAMovesAndRemovedBeforeThat(t *testing.T) {
	whole := hca("mlx5_0", "ipoib", "ib0", false)
	whole.Children = []*step.Child{{Of: whole.ID, Name: "ib0.8001", PKey: 0x8001}}
	steps := step.Plan(job.Job{}, rdma.Exclusive, verbs, nil, nil, []step.HCA{whole})
	if got, want := names(steps), "namespace, access mlx5_0, settings ib0, rdma mlx5_0, link ib0, child ib0.8001 (P_Key 0x8001), devices"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	slices.SortStableFunc(steps, func(a, b step.Step) int { return step.Rank(a) - step.Rank(b) })
	if got, want := names(steps), "child ib0.8001 (P_Key 0x8001), rdma mlx5_0, link ib0, settings ib0, access mlx5_0, devices, namespace"; got != want {
		t.Errorf("it is undone as %s\nwant %s", got, want)
	}
}

func TestTheJobsDeviceNodesAreItsUsersInTheDetectedMode(t *testing.T) {
	for mode, guard := range map[rdma.Mode]string{rdma.Shared: config.GuardRequired, rdma.Exclusive: ""} {
		steps := step.Plan(job.Job{UID: 1000, GID: 100}, mode, config.Access{UMAD: true, Guard: config.GuardRequired}, nil, nil, []step.HCA{hca("a", "", "eth1", false), hca("b", "", "eth2", false)})
		d := steps[len(steps)-1].(*step.Devices)
		if got := fmt.Sprintln(d.UID, d.GID, d.Mode, d.Kinds, len(d.HCAs)); got != fmt.Sprintln(1000, 100, mode, "[uverbs hfi1 umad]", 2) {
			t.Errorf("devices: %s", got)
		}
		if d.Guard != guard {
			t.Errorf("%s: guard is %q, want %q", mode, d.Guard, guard)
		}
	}
}
