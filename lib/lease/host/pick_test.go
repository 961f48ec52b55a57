package host

import (
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// beside is a node whose second HCA is beside its only GPU.
func beside(t *testing.T, index string) (n *Host, has table.Table) {
	t.Helper()
	sys, proc := fstest.MapFS{}, fstest.MapFS{"driver/nvidia/gpus/0000:85:00.0/information": {Data: []byte("Device Minor: 0\n")}}
	for _, pci := range []string{"pci0000:00/0000:01:00.0", "pci0000:80/0000:81:00.0", "pci0000:80/0000:85:00.0"} {
		address := pci[len("pci0000:00/"):]
		sys["devices/"+pci+"/numa_node"] = &fstest.MapFile{Data: []byte("0\n")}
		sys["bus/pci/devices/"+address] = &fstest.MapFile{Data: []byte("../../../devices/" + pci), Mode: fs.ModeSymlink}
	}
	cfg := config.Default()
	cfg.Slurm.Index = index
	for i, pci := range []string{"0000:01:00.0", "0000:81:00.0"} {
		has.HCAs = append(has.HCAs, node.HCA{ID: node.ID{GUID: "0002:c903:00ab:000" + string(rune('0'+i)), PCI: pci}, Name: "mlx5_" + string(rune('0'+i))})
	}
	return &Host{State: state.Dir(t.TempDir()), Sys: sys, Proc: proc, Config: cfg, Now: time.Now}, has
}

func TestANICBesideAGPUIsSlurmsOrTheNearestAsTheSiteSays(t *testing.T) {
	for index, want := range map[string]string{config.IndexSlurm: "mlx5_0", config.IndexNear: "mlx5_1"} {
		n, has := beside(t, index)
		wants := []gres.Want{{Gres: "nic", Indices: []int{0}, Source: config.Scontrol}}
		p, err := n.Pick(&has, job.Job{ID: 7, GPUs: []int{0}}, wants, &scan.Users{})
		if err != nil || len(p.Entries) != 1 || p.Entries[0].HCA.Name != want || len(has.Claims) != 1 || has.Claims[0].Name != want {
			t.Errorf("%s: got %v, %v, claims %v, want %s", index, p.Entries, err, has.Claims, want)
		}
	}
}
