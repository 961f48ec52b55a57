package inspect

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/machine"
	"gresnet/lib/words/config"
	"gresnet/lib/words/job"
	"gresnet/lib/words/node"
	"gresnet/test/machines"
	"gresnet/test/sitetest"
)

func TestJobsOnALayoutGetWhatItSays(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range all {
		l, err := Lay(m.Machine, config.Default())
		if err != nil || l.Drift != nil {
			t.Fatal(name, err, l.Drift)
		}
		found := l.Check(t.Context())
		if len(found) != len(m.Jobs) {
			t.Errorf("%s: %d jobs, and %d findings", name, len(m.Jobs), len(found))
		}
		for _, f := range found {
			if f.Level != "ok" {
				t.Errorf("%s: %s", name, f)
			}
		}
		// One word too many, and each is found.
		for i := range m.Jobs {
			m.Jobs[i].HCAs = append(m.Jobs[i].HCAs, "none")
		}
		if l, err = Lay(m.Machine, config.Default()); err != nil {
			t.Fatal(name, err)
		}
		for _, f := range l.Check(t.Context()) {
			if f.Level != "error" || !strings.Contains(f.Text, "and the layout says") {
				t.Errorf("%s: not found: %s", name, f)
			}
		}
	}
}

func TestWhatIsShownOfALayoutHasEachHCA(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range all {
		l, err := Lay(m.Machine, config.Default())
		if err != nil {
			t.Fatal(name, err)
		}
		s := l.Scan()
		var shown bytes.Buffer
		if err := s.Table(&shown); err != nil {
			t.Fatal(err)
		}
		if len(s.HCAs) != len(m.Machine.HCAs) || len(s.GPUs) != len(m.GPUs) {
			t.Errorf("%s: %d HCAs and %d GPUs of %d and %d", name, len(s.HCAs), len(s.GPUs), len(m.Machine.HCAs), len(m.GPUs))
		}
		for _, h := range m.Machine.HCAs {
			if !strings.Contains(shown.String(), h.Name) {
				t.Errorf("%s: it does not show %s:\n%s", name, h.Name, shown.String())
			}
		}
	}
}

func TestALayoutThatIsWrittenIsReadAsItWas(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range all {
		for i := range m.Machine.HCAs {
			h := &m.Machine.HCAs[i]
			h.Driver = "mlx5"
			h.Ports = append(h.Ports, portsOf(i)...)
		}
		text := m.Machine.String()
		again, err := machine.Parse(name, text)
		if err != nil || again.String() != text {
			t.Errorf("%s: %v:\n%s\n%s", name, err, text, again)
		}
	}
}

// portsOf returns up to three ports. Less and less is known of them.
func portsOf(i int) []node.Port {
	all := []node.Port{{Num: 1, LinkLayer: "InfiniBand", State: "ACTIVE", Interface: "ib0"}, {Num: 2, LinkLayer: "Ethernet", State: "DOWN"}, {Num: 3}}
	return all[:i%(len(all)+1)]
}

// A site's tables on nodes with a bond, VFs and a subfunction: what a job gets, and what no job can get.
func TestPartsOfALayoutGoToJobsAsOnANode(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	hca := func(index int, match, more string) string {
		return fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"pci=%s\"\n%s\n", index, match, more)
	}
	const lag, pf, other = "0000:1a:00.0", "0000:1a:00.0", "0000:9c:00.0"
	for _, c := range []struct{ machine, toml, want, refused string }{
		{"onprem-roce-lag", hca(0, lag, ""), "", "ens10f0np0 belongs to bond bond0"},
		{"onprem-roce-lag", hca(0, lag, `interface = "keep"`), "mlx5_bond_0", ""},
		{"onprem-roce-lag", hca(0, lag, "") + "[access]\nisolation = \"devices\"\n", "mlx5_bond_0", ""},
		{"onprem-roce-lag", hca(0, lag, "part = \"ipvlan\"\ncount = 1"), "mlx5_bond_0", ""},
		{"onprem-vfs", hca(0, pf, "part = \"macvlan\"\ncount = 4"), "", "ibs1 is not on Ethernet"},
		{"onprem-vfs", hca(0, pf, `part = "shared"`), "mlx5_0", ""},
		{"onprem-vfs", hca(0, pf, "part = \"vf\"\ncount = 2"), "mlx5_2", ""},
		{"onprem-vfs", hca(0, other, "part = \"vf\"\ncount = 8"), "mlx5_1v0", ""},
		{"onprem-vfs", "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_4\"\n", "mlx5_4", ""},
	} {
		l, err := Lay(all[c.machine].Machine, sitetest.Parse(t, c.toml))
		if err != nil || l.Drift != nil {
			t.Errorf("%s: %v, %v", c.toml, err, l.Drift)
			continue
		}
		d, err := l.Plan(t.Context(), job.Job{ID: 1}, []gres.Want{{Gres: "nic", Count: 1}})
		got := ""
		if err == nil {
			got = d.HCAs[0].Name
		}
		refusals := l.Refusals()
		if got != c.want || (c.refused == "") != (err == nil && len(refusals) == 0) {
			t.Errorf("%s: a job gets %q, %v; %v", c.toml, got, err, refusals)
		}
		if c.refused != "" && !(strings.Contains(err.Error(), c.refused) && strings.Contains(refusals[0].Err.Error(), c.refused)) {
			t.Errorf("%s: %v, %v", c.toml, err, refusals)
		}
	}
}

func TestTwoHCAsOfABondHaveNoSlots(t *testing.T) {
	m, err := machine.Parse("two", `
hca:mlx5_0 0 pci0000:10/0000:10:00.0 port=1/Ethernet/ACTIVE/ens1 bond=bond0
hca:mlx5_1 0 pci0000:10/0000:10:00.1 port=1/Ethernet/ACTIVE/ens2 bond=bond0
`)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Lay(m, sitetest.Parse(t, "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\npart = \"macvlan\"\ncount = 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if list := l.Refusals(); len(list) != 1 || !strings.Contains(list[0].Err.Error(), "two HCAs, which the bond does not join") {
		t.Error(list)
	}
}

func TestALayoutSaysHowManyVFsThereCanBe(t *testing.T) {
	const line = "hca:mlx5_0 0 pci0000:10/0000:10:00.0"
	for more, want := range map[string]string{"": "does not say how many VFs", " vfs=0/4": "0000:10:00.0 has no VF 4"} {
		m, err := machine.Parse("pf", line+more)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Lay(m, sitetest.Parse(t, "[[hca]]\nindex = 0\nmatch = \"pci=0000:10:00.0\"\npart = \"vf\"\ncount = 8\n"))
		if err == nil {
			err = l.Drift
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", more, err)
		}
	}
}
