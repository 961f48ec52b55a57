package inspect

import (
	"bytes"
	"strings"
	"testing"

	"gresnet/lib/hca/machine"
	"gresnet/lib/words/config"
	"gresnet/lib/words/node"
	"gresnet/test/machines"
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
