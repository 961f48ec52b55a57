package slurmref

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	identity "gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/test/seed"
)

// mapped returns a node with HCAs whose [[hca]] tables have types, or some of them do.
func mapped(r *rand.Rand) (inv report.Scan) {
	names, index := []string{"nic", "opa"}[:1+r.IntN(2)], map[string]int{}
	types := [][]string{{""}, {"hdr"}, {"hdr", "ndr"}, {"hdr", ""}}[r.IntN(4)]
	for i := range 1 + r.IntN(6) {
		name := pick(r, names...)
		h := report.HCA{Gres: name, Type: pick(r, types...), Index: new(index[name]), Name: fmt.Sprintf("mlx5_%d", i),
			NUMA: new(r.IntN(2)), ID: identity.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", i)}}
		h.Cores = []int{*h.NUMA * 2, *h.NUMA*2 + 1}
		index[name]++
		inv.HCAs = append(inv.HCAs, h)
	}
	r.Shuffle(len(inv.HCAs), func(i, j int) { inv.HCAs[i], inv.HCAs[j] = inv.HCAs[j], inv.HCAs[i] })
	return inv
}

// Whatever types the [[hca]] tables have, slurmd takes what setup writes, and numbers the HCAs as gresnet
// does; or setup writes nothing.
func TestSlurmdTakesTheLinesThatSetupWrites(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			d, r := StartDaemon(t, suite), seed.Rand()
			names := []string{"nic", "opa"}
			refused := 0
			const most = 200
			for range most {
				inv := mapped(r)
				var lines bytes.Buffer
				if err := inv.GresConf(&lines, names, "/g"); err != nil {
					refused++
					continue
				}
				files, err := inv.Placeholders(names)
				use(t, err)
				for _, name := range files {
					use(t, os.WriteFile(filepath.Join(d.root, "g", name), nil, 0o600))
				}
				var text strings.Builder
				for line := range strings.Lines(lines.String()) {
					text.WriteString("NodeName=n1 " + line)
				}
				d.Write("gres.conf", text.String())
				d.Write("slurm.conf", d.Conf("NodeName=n1 CPUs=4 Gres="+inv.Counts(names)+"\n"))
				for _, name := range names {
					sameNumbers(t, d, inv, name, text.String())
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("%d nodes, %d refused", most, refused)
		})
	}
}

// sameNumbers compares what slurmd numbers with the mapping.
func sameNumbers(t *testing.T, d *Daemon, inv report.Scan, name, text string) {
	t.Helper()
	got, why := d.Gres(name)
	if why != "" {
		t.Errorf("Gres=%s\n%s\nslurmd says %s", inv.Counts([]string{name}), text, why)
	}
	want := make([]string, 0, len(inv.HCAs))
	for i := range inv.HCAs {
		for _, h := range inv.HCAs {
			if h.Gres == name && h.Number() == i {
				want = append(want, fmt.Sprintf("%s /g/%s%d", h.Type, name, i))
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("Gres=%s\n%s\nslurmd has %q, wanted %q", inv.Counts([]string{name}), text, got, want)
	}
}
