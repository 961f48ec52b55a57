package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// partCase is a job with an HCA or with a part of one.
type partCase struct {
	name  string
	whole string // the case that it is compared with, of a whole HCA
	mode  string
	other bool // another job has another part of the HCA all the time
	keys  string
}

// What tables [[hca]] say of the HCAs of a VM with --vf --hca roce=1,ib=1, and of their parts.
const (
	wholeIB   = "match = \"rdma=ibfake0\"\n"
	wholeRoCE = "match = \"rdma=ibfake1\"\n"
	inVFs     = "match = \"pci=0000:01:00.0\"\npart = \"vf\"\ncount = 2\n"
	inSlots   = "count = 2\nnetwork = \"10.128.0.0/16\"\n"
)

func partCases() []partCase {
	roce := partCase{name: "1 HCA, RoCE", mode: "shared", keys: wholeRoCE}
	ib := partCase{name: "1 HCA, IPoIB", mode: "shared", keys: wholeIB}
	exclusive := partCase{name: "1 HCA, RoCE, exclusive mode", mode: "exclusive", keys: wholeRoCE}
	macvlan, partition := wholeRoCE+"part = \"macvlan\"\n"+inSlots, wholeIB+"part = \"pkey\"\npkey = 0x8001\n"+inSlots
	return []partCase{
		roce,
		{"1 VF, RoCE", roce.name, "shared", false, inVFs},
		{"1 slot, macvlan", roce.name, "shared", false, macvlan},
		{"1 slot, macvlan, another job has one", roce.name, "shared", true, macvlan},
		ib,
		{"1 slot, P_Key", ib.name, "shared", false, partition},
		exclusive,
		{"1 VF, RoCE, exclusive mode", exclusive.name, "exclusive", false, inVFs},
	}
}

// partsCommand measures what jobs with parts of HCAs take. Run it in a VM with --vf --hca roce=1,ib=1.
func partsCommand(args []string) error {
	o, err := readOrder("parts", args)
	if err != nil {
		return err
	}
	programs, err := near(o.programs, "gresnet", "gresnet-prolog", "gresnet-epilog")
	if err != nil {
		return err
	}
	r := o.results
	for _, c := range partCases() {
		m, err := c.measure(programs, o.rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.Cases = append(r.Cases, m)
		if err := r.write(o.file); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the node what a case wants it to be, with an address and a route on each interface.
func (p partCase) setUp(programs string) error {
	text := "[slurm]\nsource = [\"gpu\"]\n[overlay]\nkind = \"none\"\n[uplink]\nkind = \"none\"\n[[hca]]\nindex = 0\n" + p.keys
	if strings.Contains(p.keys, "part") {
		text += "gpus = [0, 1]\n"
	} else {
		text += "gpus = [0]\n"
	}
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	// The mode cannot be changed while a namespace dies.
	if err := eventually(func() error { return shell("rdma system set netns " + p.mode) }); err != nil {
		return err
	}
	return shell("rm -rf /run/gresnet; " + programs + "/gresnet boot; " + udevSettle + `
n=0
for i in ib0 roce0 $(ls /sys/bus/pci/devices/0000:01:00.0/virtfn*/net | grep -v : || true); do
	ip link set $i up
	ip addr replace 10.$n.0.2/24 dev $i
	ip route replace 172.16.$n.0/24 via 10.$n.0.1 dev $i
	n=$((n + 1))
done
find /dev/infiniband -name 'u*[0-9]' -exec chmod 600 {} +; rm -rf /run/gresnet; ` + udevSettle)
}

func (p partCase) measure(programs string, rounds int) (measured, error) {
	m := measured{testCase: testCase{Name: p.name, HCAs: 1, Mode: p.mode, Jobs: 1}, Samples: samples{}}
	if err := p.setUp(programs); err != nil {
		return m, err
	}
	own, one := gresnet(programs), make([]hca, 1)
	if p.other {
		if err := finish(own.in(1, one)); err != nil {
			return m, err
		}
	}
	before, err := onNode()
	if err != nil {
		return m, err
	}
	for round := range rounds + 1 {
		in, err := own.timed(m.testCase, one, own.in)
		if err != nil {
			return m, err
		}
		if err := settle(); err != nil {
			return m, err
		}
		out, err := own.timed(m.testCase, one, own.out)
		if err != nil {
			return m, err
		}
		if err := settle(); err != nil {
			return m, err
		}
		if round > 0 { // the first warms up
			m.Samples.add(own.name, "in", in)
			m.Samples.add(own.name, "out", out)
		}
	}
	if err := restored(before); err != nil {
		return m, err
	}
	if p.other {
		return m, finish(own.out(1, one))
	}
	return m, nil
}

// parts returns the table of a run, with what a part takes of what the whole HCA does.
func (r results) parts() string {
	var b strings.Builder
	b.WriteString("| prolog, epilog | ms | of the whole HCA's |\n| --- | --- | --- |\n")
	for _, c := range partCases() {
		m, whole := r.of(c.name), r.of(c.whole)
		took := func(way string) (float64, bool) { return m.median("gresnet", way) }
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.name, m.both(took, "%.1f"), m.both(func(way string) (float64, bool) {
			own, _ := took(way)
			of, there := whole.median("gresnet", way)
			return own / of, there
		}, "%.2f"))
	}
	return b.String()
}
