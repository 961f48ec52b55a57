package main

import (
	"bytes"
	"testing"

	"gresnet/lib/node"
	"gresnet/lib/step"
)

func TestAPlanIsPrintedStepByStep(t *testing.T) {
	id := node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:3b:00.0"}
	p := planned{
		Notes: []string{"policy 1 fits"},
		HCAs:  []plannedHCA{{Gres: "nic", Index: 3, Name: "mlx5_0", ID: id}},
	}
	for _, s := range []step.Step{&step.Claim{}, &step.Namespace{}, &step.RDMA{ID: id, Name: "mlx5_0"}} {
		p.Steps = append(p.Steps, describe(s))
	}
	for want, p := range map[string]planned{
		`# policy 1 fits
nic 3 is mlx5_0 (0002:c903:00ab:0000@0000:3b:00.0)
  1  claim
  2  namespace
  3  rdma mlx5_0
`: p,
		"# the job has none\nno HCA, and nothing to do\n": {Notes: []string{"the job has none"}},
	} {
		var out bytes.Buffer
		if err := p.print(&out); err != nil || out.String() != want {
			t.Errorf("%v, got\n%swant\n%s", err, out.String(), want)
		}
	}
	if got, want := p.Steps[2], (plannedStep{Kind: "rdma", Object: "mlx5_0", HCA: id.String()}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
