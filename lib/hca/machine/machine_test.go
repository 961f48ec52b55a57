package machine

import (
	"strings"
	"testing"

	"gresnet/lib/words/node"
	"gresnet/test/seed"
)

const small = `# source: made up
gpu0 0 pci0000:10/0000:10:01.0/0000:11:00.0
hca:mlx5_0 0 pci0000:10/0000:10:02.0/0000:12:00.0 driver=mlx5 port=1/InfiniBand/ACTIVE/ib0
hca:a:b:down -1 pci0000:20/0000:20:00.0
hca:mlx5_bond_0 0 pci0000:30/0000:30:00.0 port=1/Ethernet/ACTIVE/ens1f0 bond=bond0
hca:pf 0 pci0000:40/0000:40:00.0 vfs=2/16/switchdev
hca:pf_vf1 0 pci0000:40/0000:40:00.2 vf=0000:40:00.0/1
numa 0 10 21
job 0 mlx5_0
`

func TestALayoutHasWhatItsLinesSay(t *testing.T) {
	m, err := Parse("small", small)
	if err != nil || len(m.GPUs) != 1 || len(m.HCAs) != 5 || len(m.Jobs) != 1 {
		t.Fatal(m, err)
	}
	if h := m.HCAs[0]; h.Name != "mlx5_0" || h.Driver != "mlx5" || h.Refused() != "" || h.At.Far[1] != 21 || h.Ports[0].Interface != "ib0" || h.At.PCI != "0000:12:00.0" {
		t.Errorf("%+v", h)
	}
	if h := m.HCAs[1]; h.Name != "a:b" || h.Refused() == "" || h.At.NUMA != -1 || h.At.Far != nil {
		t.Errorf("%+v", h)
	}
	if h := m.HCAs[2]; h.Bond != "bond0" || h.Refused() == "" {
		t.Errorf("%+v", h)
	}
	if h := m.HCAs[3]; *h.VFs != (VFs{2, 16, true}) || h.Refused() != "" {
		t.Errorf("%+v", h)
	}
	if h := m.HCAs[4]; h.ID != (node.ID{PCI: "0000:40:00.0", VF: "1"}) || h.Function != "0000:40:00.2" || h.Refused() == "" {
		t.Errorf("%+v", h)
	}
}

func TestALineThatMakesNoSenseIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"gpux 0 pci0000:50/0000:50:00.0":                       "10: no minor number",
		"gpu1 a pci0000:50/0000:50:00.0":                       "10: no NUMA node",
		"gpu1 0 pci0000:50":                                    "10: no PCI address",
		"gpu0 0 pci0000:50/0000:50:00.0":                       "gpu0 is there twice",
		"hca:mlx5_0 0 pci0000:10/0000:13:00.0":                 "hca:mlx5_0 is there twice",
		"hca: 0 pci0000:50/0000:50:00.0":                       "10: no name",
		"hca:x 0 pci0000:50/0000:50:00.0 port=0":               "10: no port",
		"hca:x 0 pci0000:50/0000:50:00.0 color=red":            "10: nothing is called",
		"hca:x 0 pci0000:50/0000:50:00.0 vf=0000:40:00.0/01":   "10: no vf",
		"hca:x 0 pci0000:50/0000:50:00.0 vf=0000:40:00.0/1":    "0000:40:00.0/vf1 is there twice",
		"hca:x 0 pci0000:50/0000:50:00.0 vf=0000:60:00.0/0":    "a VF of 0000:60:00.0, which is not there",
		"hca:x 0 pci0000:50/0000:50:00.0 vfs=3/2":              "10: no vfs",
		"hca:x 0 pci0000:50/0000:50:00.0 vfs=2/3/switchdevice": "10: no vfs",
		"numa 0 ten":     "10: no distances",
		"job 1 mlx5_0":   "has GPU 1, and there are 1",
		"job 0 mlx5_9":   "gets mlx5_9, which is not there",
		"job 0- mlx5_0":  "10: parse indices",
		"root:x:0:0::/:": "10: no line of a layout",
	} {
		if _, err := Parse("small", small+line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestNoTextStopsTheProgram(t *testing.T) {
	r := seed.Rand()
	for range 5000 {
		text := []byte(small)
		for range 1 + r.IntN(4) {
			text[r.IntN(len(text))] = byte(" \n:/-#=0a\x00\xff"[r.IntN(11)])
		}
		if m, err := Parse("small", string(text)); err == nil {
			_ = m.String()
		}
	}
}
