package setup

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/hca/report"
	"gresnet/lib/slurm"
)

// Count sets what Slurm is to count: the HCAs of an inventory, where its count says what a job gets.
func (s *Site) Count(inv report.Scan, cfg config.Slurm) error {
	s.Gres, s.Files, s.GresLines = nil, nil, nil
	if !slices.Contains(cfg.Source, config.Scontrol) {
		return nil
	}
	s.Gres = cfg.Gres
	files, err := inv.Placeholders(cfg.Gres)
	if err != nil {
		return err
	}
	for _, name := range files {
		s.Files = append(s.Files, path.Join(report.PlaceholderDir, name))
	}
	var lines strings.Builder
	if err := inv.GresConf(&lines, cfg.Gres, report.PlaceholderDir); err != nil {
		return err
	}
	if text := strings.TrimSpace(lines.String()); text != "" {
		s.GresLines = strings.Split(text, "\n")
	}
	return nil
}

// wanted returns the devices that the lines for gres.conf say.
func (p *planner) wanted(name string) []slurm.Device {
	f, _ := slurm.ParseFile("gres.conf", strings.Join(p.GresLines, "\n")+"\n")
	devices, _ := slurm.Conf(f.Lines).Devices(p.Node, name) // they are setup's own
	return devices
}

// devicesOf returns the devices of a GRES as gres.conf is to have them.
func (p *planner) devicesOf(name string) []slurm.Device {
	if devices, is := p.devices[name]; is {
		return devices
	}
	return p.wanted(name)
}

// gresTypes has Slurm know the GRES.
func (p *planner) gresTypes(t *text) {
	if len(p.Gres) == 0 {
		return
	}
	before := t.lines().Last("grestypes")
	bad := false
	for _, name := range p.Gres {
		if !slices.Contains(strings.Split(before, ","), name) && !bad {
			bad = true
			p.found(report.Fail("slurm.conf", "GN077 gresnet setup, or add it; or correct slurm.gres in gresnet.toml", "GresTypes lacks %s", name))
		}
		t.list("GresTypes", name)
	}
	if !bad {
		p.found(report.Well("slurm.conf", "GresTypes has %s", strings.Join(p.Gres, ", ")))
	}
}

// gresConf has a line for each HCA. Slurm's index is that of the line, and must mean the same HCA in gresnet.toml.
// Lines of the site's own stay where they say that.
func (p *planner) gresConf(file string) {
	t, understood := p.openConf(file)
	if !understood {
		return
	}
	faults := t.lines().GresFaults()
	for _, err := range faults {
		p.refused("gres.conf", err)
	}
	if len(faults) > 0 || len(p.GresLines) == 0 {
		return
	}
	now := t.lines()
	at := t.cut()
	own := false
	for _, name := range p.Gres {
		devices, err := t.lines().Devices(p.Node, name)
		if err != nil {
			p.found(report.FailBy("gres.conf", err))
			p.refuse(err.Error(), correct)
			own = true
			continue
		}
		if own = own || len(devices) > 0; len(devices) > 0 {
			p.devices[name] = p.ofSite(t, name, devices)
		}
	}
	if own {
		t.content = t.was
		p.keepPlaceholders()
		return
	}
	rest := t.content[at:]
	t.content = t.content[:at]
	t.add(begin)
	for _, line := range p.GresLines {
		t.add("NodeName=" + p.Node + " " + line)
	}
	t.add(end)
	t.content += rest
	for _, name := range p.Gres {
		p.holdOwn(t, now, name)
	}
	p.change()
}

// ofSite holds the site's own lines about a GRES against the HCAs. It returns the devices that Slurm will have.
func (p *planner) ofSite(t *text, name string, devices []slurm.Device) []slurm.Device {
	f := p.compare(name, devices)
	p.found(f)
	if f.Level == report.OK || p.makes(devices) {
		return devices
	}
	for _, l := range t.lines() {
		if d, err := (slurm.Conf{l}).Devices(p.Node, name); err == nil && len(d) > 0 {
			p.refuse(fmt.Sprintf("%s has %s of this node already: %s", place(l), name, l), "GN238 take the line out, if gresnet is to number the HCAs, then run setup again")
		}
	}
	if f.Level == report.Error {
		return p.wanted(name)
	}
	return devices
}

// makes tells whether the devices' files, if they are not there, are those that setup makes.
func (p *planner) makes(devices []slurm.Device) bool {
	var files []string
	for _, d := range devices {
		files = append(files, d.File)
	}
	return slices.Equal(files, p.Files)
}

// keepPlaceholders makes no other files than those that the site's lines name.
func (p *planner) keepPlaceholders() {
	named := func(file string) bool {
		for _, devices := range p.devices {
			if slices.ContainsFunc(devices, func(d slurm.Device) bool { return d.File == file }) {
				return true
			}
		}
		return false
	}
	p.Plan.Edits = slices.DeleteFunc(p.Plan.Edits, func(e Edit) bool { return e.Placeholder && !named(e.Path) })
}

// holdOwn says what is wrong with the lines about a GRES that setup has made itself, or not yet.
func (p *planner) holdOwn(t *text, now slurm.Conf, name string) {
	devices, err := now.Devices(p.Node, name)
	switch {
	case err != nil:
		p.found(report.FailBy("gres.conf", err))
	case !t.there:
		p.found(report.Fail("gres.conf", "GN072 gresnet setup, or make it: gresnet scan --gres-conf >>"+t.file, "there is no %s", t.file))
	default:
		p.found(p.compare(name, devices))
	}
}

// compare holds devices of gres.conf against the HCAs.
func (p *planner) compare(name string, devices []slurm.Device) report.Finding {
	const about = "gres.conf"
	const do = "GN079 take the lines from gresnet scan --gres-conf"
	mapped := p.wanted(name)
	if len(devices) == 0 && len(mapped) > 0 {
		return report.Fail(about, "GN473 gresnet setup, or take the lines from gresnet scan --gres-conf", "it has no %s for this node, the mapping has %d", name, len(mapped))
	}
	if len(devices) != len(mapped) {
		return report.Fail(about, do, "it has %d %s for this node, the mapping has %d", len(devices), name, len(mapped))
	}
	for i, d := range devices {
		h := mapped[i]
		switch {
		case d.Type != h.Type && h.Type != "":
			return report.Fail(about, do, "%s %d is of type %q, in the mapping of type %q", name, i, d.Type, h.Type)
		case d.File == "" && h.File != "":
			return report.Warn(about, do, "%s has Count= and no File=: Slurm tells no indices, and each job gets what is free", name)
		case strings.HasPrefix(d.File, "/dev/infiniband/"):
			return report.Fail(about, do, "%s %d is %s, whose number changes when the HCA is moved", name, i, d.File)
		case !slurm.Exists(p.Root, d.File):
			return report.Fail(about, "GN080 correct the line, or make the file: gresnet scan --gres-files", "%s is not there, and slurmd does not start without it", d.File)
		}
	}
	return report.Well(about, "%d %s", len(devices), name)
}

// nodeLine sees to what slurm.conf says that the node has of each GRES.
func (p *planner) nodeLine(t *text) {
	if len(p.GresLines) == 0 {
		return
	}
	conf, wrong := t.lines(), false
	var counts []string
	for _, name := range p.Gres {
		counts = append(counts, countsOf(name, p.devicesOf(name)))
		wrong = p.held(conf, name) || wrong
	}
	defaults, found := "", false
	for i := range t.keys("NodeName") {
		line := t.keys("NodeName")[i] // an edit moves those after it
		have := defaults
		gres := line.Pair("gres")
		if gres.Key != "" {
			have = gres.Value
		}
		name := line.Keys[0]
		if strings.EqualFold(name.Value, "default") {
			defaults = have
			continue
		}
		hosts, err := slurm.ParseHostlist(name.Value)
		if err != nil {
			p.refuse(fmt.Sprintf("%s: %s", place(line), err), correct)
			return
		}
		if !hosts.Contains(p.Node) {
			continue
		}
		found = true
		want := gresOf(have, p.Gres, strings.Join(counts, ","))
		switch {
		case !wrong:
		case name.Value != p.Node:
			p.refuse(fmt.Sprintf("%s is about several nodes: NodeName=%s", place(line), name.Value),
				fmt.Sprintf("GN236 if all of them have HCAs like this one, put Gres=%s into it, else give this node a line of its own; then run setup again", want))
		case gres.Key != "":
			t.replace(line, gres, want)
		default:
			t.insert(line, "Gres", want)
		}
	}
	if !found {
		p.refuse(fmt.Sprintf("%s has no line with NodeName=%s", t.file, p.Node), "GN237 set SLURMD_NODENAME to Slurm's name of this node, or add the line")
	}
}

// held holds what the node's line says of a GRES against gres.conf.
func (p *planner) held(conf slurm.Conf, name string) (wrong bool) {
	devices := p.devicesOf(name)
	found := func(f report.Finding, bad bool) {
		if bad {
			p.found(f)
			wrong = true
		}
	}
	found(p.promised(conf, name, len(devices)))
	if !conf.Consumes(p.Node, name) {
		found(report.Fail("slurm.conf", "GN408 leave no_consume out", "NodeName of %s has %s with no_consume: Slurm gives it to the first job alone, and jobs are refused", p.Node, name), true)
	}
	found(p.typed(conf, name, devices))
	found(p.ordered(conf, name, devices))
	return wrong
}

// countsOf returns how many a node has of a GRES, as its line in slurm.conf says it: "nic:hdr:2,nic:ndr:1".
func countsOf(name string, devices []slurm.Device) string {
	var kinds []string
	count := map[string]int{}
	for _, d := range devices {
		kind := strings.TrimSuffix(name+":"+d.Type, ":")
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%s:%d", kind, count[kind])
	}
	return strings.Join(kinds, ",")
}

// promised holds what the node's line in slurm.conf has of a GRES against
// gres.conf. A node without such a line says it itself.
func (p *planner) promised(conf slurm.Conf, name string, have int) (f report.Finding, bad bool) {
	const about = "slurm.conf"
	do := fmt.Sprintf("GN078 put Gres=%s:%d into the node's line", name, have)
	switch count, is := conf.Promised(p.Node, name); {
	case !is || count == have:
		return report.Finding{}, false
	case count == 0:
		return report.Fail(about, do, "NodeName of %s has no %s: no job can ask for it", p.Node, name), true
	case count > have:
		return report.Fail(about, do, "NodeName of %s has %d %s, gres.conf %d: slurmctld drains the node", p.Node, count, name, have), true
	default:
		return report.Warn(about, do, "NodeName of %s has %d %s, gres.conf %d: the rest is never used", p.Node, count, name, have), true
	}
}

// typed holds the types of a GRES in the node's line in slurm.conf against those of gres.conf, which
// slurmctld compares with their case.
func (p *planner) typed(conf slurm.Conf, name string, devices []slurm.Device) (f report.Finding, bad bool) {
	types := conf.Types(p.Node, name)
	if len(types) > 1 && slices.Contains(types, "") {
		return report.Fail("slurm.conf", "GN511 give each a type, or none", "NodeName of %s has %s with a type and without: slurmd refuses that", p.Node, name), true
	}
	for _, kind := range types {
		if kind != "" && !slices.ContainsFunc(devices, func(d slurm.Device) bool { return d.Type == kind }) {
			return report.Fail("slurm.conf", "GN406 write the type as gres.conf has it, in the same case",
				"NodeName of %s has %s:%s, gres.conf has none of that type: slurmctld drains the node", p.Node, name, kind), true
		}
	}
	return report.Finding{}, false
}

// ordered holds the order of a GRES's types in the node's line in slurm.conf, in which Slurm numbers
// its devices, against that in gres.conf.
func (p *planner) ordered(conf slurm.Conf, name string, devices []slurm.Device) (f report.Finding, bad bool) {
	var want []string
	types := conf.Types(p.Node, name)
	for _, d := range devices {
		if !slices.Contains(want, d.Type) {
			want = append(want, d.Type)
		}
	}
	lacks := func(list []string) func(string) bool {
		return func(kind string) bool { return !slices.Contains(list, kind) }
	}
	both := slices.DeleteFunc(slices.Clone(want), lacks(types))
	if slices.Equal(both, slices.DeleteFunc(types, lacks(want))) {
		return report.Finding{}, false
	}
	for i := range want {
		want[i] = strings.TrimSuffix(name+":"+want[i], ":")
	}
	return report.Fail("slurm.conf", "GN370 put them into this order: "+strings.Join(want, ", "),
		"NodeName of %s has the types of %s in another order than gres.conf: Slurm numbers them by it, and jobs fail their prologs", p.Node, name), true
}
