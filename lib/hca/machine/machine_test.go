package machine

import (
	"strings"
	"testing"

	"gresnet/test/seed"
)

const small = `# source: made up
gpu0 0 pci0000:10/0000:10:01.0/0000:11:00.0
hca:mlx5_0 0 pci0000:10/0000:10:02.0/0000:12:00.0 driver=mlx5 port=1/InfiniBand/ACTIVE/ib0
hca:a:b:down -1 pci0000:20/0000:20:00.0
numa 0 10 21
job 0 mlx5_0
`

func TestALayoutHasWhatItsLinesSay(t *testing.T) {
	m, err := Parse("small", small)
	if err != nil || len(m.GPUs) != 1 || len(m.HCAs) != 2 || len(m.Jobs) != 1 {
		t.Fatal(m, err)
	}
	if h := m.HCAs[0]; h.Name != "mlx5_0" || h.Driver != "mlx5" || !h.ForJobs() || h.At.Far[1] != 21 || h.Ports[0].Interface != "ib0" || h.At.PCI != "0000:12:00.0" {
		t.Errorf("%+v", h)
	}
	if h := m.HCAs[1]; h.Name != "a:b" || h.ForJobs() || h.At.NUMA != -1 || h.At.Far != nil {
		t.Errorf("%+v", h)
	}
}

func TestALineThatMakesNoSenseIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"gpux 0 pci0000:30/0000:30:00.0":            "7: no minor number",
		"gpu1 a pci0000:30/0000:30:00.0":            "7: no NUMA node",
		"gpu1 0 pci0000:30":                         "7: no PCI address",
		"gpu0 0 pci0000:30/0000:30:00.0":            "gpu0 is there twice",
		"hca:mlx5_1 0 pci0000:10/0000:12:00.0":      "0000:12:00.0 is there twice",
		"hca: 0 pci0000:30/0000:30:00.0":            "7: no name",
		"hca:x 0 pci0000:30/0000:30:00.0 port=0":    "7: no port",
		"hca:x 0 pci0000:30/0000:30:00.0 color=red": "7: nothing is called",
		"numa 0 ten":     "7: no distances",
		"job 1 mlx5_0":   "has GPU 1, and there are 1",
		"job 0 mlx5_9":   "gets mlx5_9, which is not there",
		"job 0- mlx5_0":  "7: parse indices",
		"root:x:0:0::/:": "7: no line of a layout",
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
