package trial

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/hca/gres"
	"gresnet/test/netnstest"
)

func TestTheTrialsConfigurationIsTheSitesAndGivesItsJobTheHCAs(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: it makes a folder in /run")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	const site = `
[slurm]
source = ["scontrol", "gpu"]
index = "near"
drain_reason = true
[metrics]
file = "/var/lib/node_exporter/gresnet.prom"
[rdma]
mode = "exclusive"
[[hca]]
index = 3
match = "pci=0000:3b:00.0"
part = "vf"
count = 2
vf = {vlan = 100}
[[policy]]
isolation = "devices"
`
	file := filepath.Join(t.TempDir(), "gresnet.toml")
	if err := os.WriteFile(file, []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", file} {
		trial := &Trial{Config: path, state: ownState}
		if err := trial.configure([]*hca{{Entry: gres.Entry{Gres: "nic", Index: 3}}, {Entry: gres.Entry{Gres: "nic", Index: 4}}}); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(siteConf, true)
		if err != nil {
			t.Fatal(err)
		}
		p := c.Policies[0]
		if !slices.Equal(c.Slurm.Source, []string{config.Fixed}) || p.Gres != "nic" || !slices.Equal(p.Indices, []int{3, 4}) || c.Access.Host != config.Open {
			t.Errorf("%q: %+v", path, c)
		}
		if c.Metrics.File != "" || c.RDMA.Mode != "" || c.Slurm.DrainReason {
			t.Errorf("%q: the trial counts as a job: %+v", path, c)
		}
		if path != "" && (len(c.HCAs) != 1 || c.HCAs[0].VF.VLAN.ID != 100 || len(c.Policies) != 2 || c.Policies[1].Isolation != config.IsolateDevices) {
			t.Errorf("it lacks what the site has: %+v", c)
		}
	}
}

func TestWhatAProgramPrintsIsAFaultOrAWarning(t *testing.T) {
	fault, warnings := heard("gresnet-prolog: warning: port 1 is down\ngresnet-prolog: move mlx5_0: busy [GN255]\ngresnet-prolog: hint: wait\n", "gresnet-prolog")
	if fault != "move mlx5_0: busy [GN255]; hint: wait" || !slices.Equal(warnings, []string{"port 1 is down"}) {
		t.Errorf("%q, %q", fault, warnings)
	}
}
