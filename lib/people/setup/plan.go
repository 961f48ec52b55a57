// Package setup makes a node with an installed package one whose jobs get HCAs: it changes Slurm's
// files and the node's, and gives them back byte for byte. The plan is pure; the deeds are in do.go.
package setup

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"gresnet/lib/slurm"
	"gresnet/lib/slurm/plugin"
	"gresnet/lib/state/sign"
	"gresnet/lib/words/hint"
)

// Site is the node that setup changes.
type Site struct {
	Root      fs.FS  // the node's files, from / on
	Node      string // Slurm's name for the node
	SlurmConf string // path of slurm.conf; empty: look in the usual places
	Toml      string // path of gresnet.toml

	Gres      []string                 // GRES names that mean an HCA
	Counts    string                   // how many the node has: "nic:hdr:2,nic:6"
	GresLines []string                 // for gres.conf, of this node
	Files     []string                 // the placeholder files that these name
	HCATables string                   // [[hca]] tables that gresnet.toml must have; empty: none
	Mode      string                   // the RDMA netns mode that is wished for, and that gresnet.toml does not say; empty: none
	ForShared string                   // what gresnet.toml has that jobs cannot have in Mode; empty: nothing
	Systemd   bool                     // the node has systemd
	Network   func(file string) string // the kind of file system, if other hosts have the file, too; nil: none have
	Signs     sign.Seen
}

// Edit is one file that is to have another content.
type Edit struct {
	Path   string      `json:"path"`
	Before []byte      `json:"-"`
	There  bool        `json:"there"` // there is such a file before
	After  []byte      `json:"-"`
	Mode   fs.FileMode `json:"mode"`           // of one that is made
	Link   string      `json:"link,omitempty"` // the file is a symbolic link to this

	Placeholder bool `json:"placeholder,omitempty"` // the file is a device node without a driver
}

// Refusal is what setup does not do, because it would have to guess.
type Refusal struct{ Text, Do string }

// Plan is what setup does, in this order: slurmd, if it starts meanwhile, finds all that its files
// name.
type Plan struct {
	Edits      []Edit
	Refusals   []Refusal
	Controller []string // what slurm.conf of the controller, and of all nodes, must have, too
	Theirs     []string // what files must have that are not this node's alone, each line after the file's name
	Configless bool     // these files are the controller's
	Scripts    []string // that slurm.conf names, and that each node needs before it has that slurm.conf
	Install    []string // commands that put scripts into a folder that other hosts have, too
	Notes      []string
}

// Changes tells whether there is anything to do.
func (p Plan) Changes() bool { return len(p.Edits) > 0 }

// the programs, as the packages install them
const (
	prolog = "/usr/sbin/gresnet-prolog"
	epilog = "/usr/sbin/gresnet-epilog"
)

// local is where the scripts are on a node that has Slurm's files from the controller.
const local = "/etc/slurm"

// Make plans.
func Make(s Site) Plan {
	var p planner
	p.Site = s
	file := slurm.Find(s.Root, s.SlurmConf)
	if conf, err := slurm.Read(p.Root, file); file != "" && err == nil {
		if name, err := conf.Node(p.Node); err == nil {
			p.Node = name
		}
	}
	p.node()
	switch {
	case file == "":
		p.refuse("there is no slurm.conf in "+strings.Join(slurm.Places(), ", "), "GN233 install Slurm, or set SLURM_CONF to its path: a configless slurmd has it in SlurmdSpoolDir/conf-cache")
	case slurm.FromController(file):
		p.configless(file)
	default:
		p.slurm(file)
		if err := TwoFiles(s.Root, s.SlurmConf); err != nil {
			p.Plan.Notes = append(p.Plan.Notes, err.Error()+": gresnet check says what to do")
		}
	}
	if len(p.Plan.Refusals) > 0 {
		p.Plan.Edits = nil
	}
	return p.Plan
}

// TwoFiles fails if a configless slurmd has another slurm.conf than commands find.
func TwoFiles(root fs.FS, said string) error {
	other, dir := slurm.Other(root, said), path.Dir(slurm.Find(root, said))
	if other == "" {
		return nil
	}
	return hint.With(fmt.Errorf("the controller sent slurmd another one, %s: %s/slurm.conf may not be slurmd's", other, dir),
		"GN790 if slurmd has --conf-server, move "+dir+"/slurm.conf away; else delete the link "+path.Dir(other))
}

// Mend plans as much of it as it need not guess about: all, or what is the node's own alone. refused
// finds files that must not be replaced.
func Mend(s Site, refused func(Plan) []Refusal) Plan {
	p := Make(s)
	if p.Refusals = append(p.Refusals, refused(p)...); len(p.Refusals) == 0 {
		return p
	}
	var own planner
	own.Site = s
	own.HCATables, own.Mode = "", ""
	own.node()
	own.Plan.Refusals = p.Refusals
	return own.Plan
}

type planner struct {
	Site
	Plan
	dir   string           // of Slurm's files, if they come from the controller
	texts map[string]*text // that were opened
	order []*text          // as they were opened
}

func (p *planner) refuse(text, do string) {
	p.Plan.Refusals = append(p.Plan.Refusals, Refusal{text, do})
}

func (p *planner) read(file string) (string, error) {
	data, err := fs.ReadFile(p.Root, strings.TrimPrefix(path.Clean(file), "/"))
	return string(data), err
}

// text returns a file as it is planned so far.
func (p *planner) text(file string) *text {
	if t, is := p.texts[file]; is {
		return t
	}
	content, err := p.read(file)
	t := &text{p: p, file: file, content: content, was: content, there: err == nil}
	if p.texts == nil {
		p.texts = map[string]*text{}
	}
	p.texts[file], p.order = t, append(p.order, t)
	return t
}

// open reads a file of the node's own, which setup will change.
func (p *planner) open(file string) (t *text, understood bool) {
	info, err := fs.Lstat(p.Root, strings.TrimPrefix(path.Clean(file), "/"))
	if err == nil && !info.Mode().IsRegular() {
		p.refuse(file+" is not a file of its own, but "+kind(info.Mode()), "GN234 set up the host that it belongs to, or make the changes there by hand: gresnet(7), Install by hand")
		return nil, false
	}
	return p.text(file), true
}

// openConf reads a file of Slurm's with all that it includes. It may be other hosts', too.
func (p *planner) openConf(file string) (t *text, understood bool) {
	t = p.text(file)
	if _, err := t.read(); err != nil {
		p.refuse(err.Error(), correct)
		return t, false
	}
	return t, true
}

func kind(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "a symbolic link"
	}
	return "a " + mode.Type().String()
}

// isTheirs tells whether a file is not this node's alone: other hosts have it, too, or it is a link to one that may be
// theirs.
func (p *planner) isTheirs(file string) bool {
	info, err := fs.Lstat(p.Root, strings.TrimPrefix(path.Clean(file), "/"))
	return p.dir != "" && path.Dir(file) == p.dir || err == nil && !info.Mode().IsRegular() ||
		p.Network != nil && p.Network(file) != ""
}

// change plans new contents of the files that were opened: an edit, or lines for a file that is not this node's alone.
func (p *planner) change() {
	for _, t := range p.order {
		if t.planned || t.content == t.was {
			continue
		}
		t.planned = true
		e := Edit{Path: t.file, Before: []byte(t.was), There: t.there, After: []byte(t.content), Mode: 0o644}
		if !p.isTheirs(t.file) {
			p.Plan.Edits = append(p.Plan.Edits, e)
			continue
		}
		name := t.file
		if p.Configless {
			name = path.Base(name)
		}
		for _, line := range e.added() {
			if !strings.HasPrefix(line, "#") {
				p.Plan.Theirs = append(p.Plan.Theirs, name+": "+line)
			}
		}
	}
}

// slurmConf is the file that all hosts have alike.
func (p *planner) slurmConf(file string) {
	t, understood := p.openConf(file)
	if !understood {
		return
	}
	dir := path.Dir(file)
	var old []string
	for _, l := range t.lines() {
		old = append(old, l.String())
	}
	p.script(t, dir, "Prolog", prolog)
	p.script(t, dir, "Epilog", epilog)
	p.flags(t)
	for _, name := range p.Gres {
		t.list("GresTypes", name)
	}
	p.nodeLine(t)
	p.memlock(t)
	p.change()
	for _, l := range t.lines() {
		if !slices.Contains(old, l.String()) && !p.isTheirs(l.File) {
			p.Plan.Controller = append(p.Plan.Controller, l.String())
		}
	}
}

// script sees to a Prolog or an Epilog.
func (p *planner) script(t *text, dir, key, program string) {
	all := t.keys(key)
	if len(all) == 0 || last(all).Value == "" {
		t.add(key + "=" + p.wrapper(dir, key, program))
		return
	}
	version, known := p.version(t, dir)
	if known && version < plugin.SeveralLines {
		all = all[len(all)-1:] // Slurm heeds no other
	}
	folder := ""
	for _, one := range all {
		for _, file := range slurm.Glob(p.Root, one.Keys[0].Value, dir) {
			if p.calls(key, file, path.Base(program)) {
				return
			}
		}
		if value := one.Keys[0].Value; path.Base(value) == path.Base(program) {
			if value != program && path.IsAbs(value) && !slurm.Exists(p.Root, value) {
				p.wrapper(path.Dir(value), key, program) // as the file of all hosts says
			}
			return
		}
		if path.Base(one.Keys[0].Value) == "*" {
			folder = path.Dir(one.Keys[0].Value)
		}
	}
	switch {
	case folder != "" && len(all) == 1:
		p.beside(folder, dir, key)
	case known && version >= plugin.SeveralLines:
		p.line(t, key, p.wrapper(dir, key, program), version)
	default:
		value := last(all).Value
		p.refuse(fmt.Sprintf("%s has a %s of the site's, %s", place(all[len(all)-1]), key, value), callBy(key, value, program))
	}
}

// calls tells whether a script of slurmd's calls the program, so far as a run has shown that since it
// changed, or its text does. If nobody can tell, setup leaves it to check.
func (p *planner) calls(key, file, program string) bool {
	call := slurm.CallOf(p.Root, file, program)
	if call == slurm.Calls {
		return true
	}
	var changed time.Time
	if info, err := fs.Stat(p.Root, strings.TrimPrefix(file, "/")); err == nil {
		changed = info.ModTime()
	}
	if missed := p.Signs.MissedSince(changed); key == "Prolog" && missed != nil {
		return false
	}
	if p.Signs.CameThrough(program, file, changed) {
		return true
	}
	if call == slurm.Mentions {
		p.Plan.Notes = append(p.Plan.Notes, fmt.Sprintf("%s names %s and stays as it is: whether it calls it, and ends with its exit code, shows gresnet check after a job (%s)", file, program, key))
	}
	return call == slurm.Mentions
}

// version is that of the installed Slurm.
func (p *planner) version(t *text, dir string) (plugin.Version, bool) {
	dirs, _ := plugin.Dirs(p.Root, t.lines(), dir)
	return plugin.InstalledVersion(p.Root, dirs)
}

// beside puts a script of gresnet's own into a folder all of whose files slurmd runs.
func (p *planner) beside(folder, dir, key string) {
	if !path.IsAbs(folder) {
		folder = path.Join(dir, folder)
	}
	name := prologD
	if key == "Epilog" {
		name = epilogD
	}
	p.put(path.Join(folder, name), key)
}

// wrapper puts the script that calls a program beside slurm.conf, which all hosts have alike: where gresnet is not
// installed it does nothing.
func (p *planner) wrapper(dir, key, program string) (file string) {
	if slurm.FromController(path.Join(dir, "slurm.conf")) {
		dir = local
	}
	file = path.Join(dir, path.Base(program))
	if !slurm.Exists(p.Root, file) {
		p.put(file, key)
	}
	return file
}

// shipped is where the packages have the scripts.
var shipped = map[string]string{"Prolog": "/usr/share/gresnet/prolog.d/" + prologD, "Epilog": "/usr/share/gresnet/epilog.d/" + epilogD}

// put makes a script of gresnet's own.
func (p *planner) put(file, key string) {
	content := prologScript
	if key == "Epilog" {
		content = epilogScript
	}
	if p.isTheirs(file) || p.Network != nil && p.Network(path.Dir(file)) != "" {
		p.Plan.Install = append(p.Plan.Install, "install -D "+shipped[key]+" "+file)
		return
	}
	if path.Base(file) == "gresnet-"+strings.ToLower(key) { // other nodes' slurm.conf names no such file yet
		p.Plan.Scripts = append(p.Plan.Scripts, file)
	}
	p.Plan.Edits = append(p.Plan.Edits, Edit{Path: file, After: []byte(content), Mode: 0o755})
}

// line adds a line of gresnet's own to those of the site. slurmd runs lines in their order: the prolog is
// to come last, the epilog first.
func (p *planner) line(t *text, key, program string, version plugin.Version) {
	first := t.keys(key)[0]
	if key == "Prolog" {
		t.add(key + "=" + program)
	} else {
		t.before(first, key+"="+program)
	}
	p.Plan.Notes = append(p.Plan.Notes, fmt.Sprintf("%s has several lines with %s, as Slurm %s here takes them: a host with one before %s that has the same file heeds the last of them alone", t.file, key, version, plugin.SeveralLines))
}

// place returns where a line is.
func place(l slurm.Line) string { return fmt.Sprintf("%s:%d", l.File, l.Number) }

// last returns the pair that begins the last of some lines.
func last(lines []slurm.Line) slurm.Pair { return lines[len(lines)-1].Keys[0] }

// callBy returns how a script of the site's and gresnet's program can both run, whatever the script does.
func callBy(key, script, program string) string {
	folder := "/etc/slurm/" + strings.ToLower(key) + ".d"
	if key == "Prolog" {
		return fmt.Sprintf("GN049 move %s into %s, set Prolog=%s/*, and run setup again: it puts a script that calls %s beside it", script, folder, folder, program)
	}
	return fmt.Sprintf("GN050 move %s into %s, set Epilog=%s/*, and run setup again: it puts a script that calls %s beside it", script, folder, folder, program)
}

// flags sees to PrologFlags: Slurm must run the prolog on all of a job's nodes before it begins.
func (p *planner) flags(t *text) {
	all := t.keys("PrologFlags")
	if len(all) > 0 {
		for _, flag := range strings.Split(strings.ToLower(last(all).Value), ",") {
			switch strings.TrimSpace(flag) {
			case "contain", "x11":
				return
			case "nohold":
				p.refuse(place(all[len(all)-1])+" has PrologFlags=NoHold, with which Slurm does not take Contain", "GN235 take NoHold out, if you can do without it")
				return
			}
		}
	}
	t.list("PrologFlags", "Contain")
}

// nodeLine sees to what slurm.conf says that the node has.
func (p *planner) nodeLine(t *text) {
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
		want := gresOf(have, p.Gres, p.Counts)
		switch {
		case sameGres(have, want):
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

// sameGres tells whether two lists have the same elements.
func sameGres(a, b string) bool {
	split := func(list string) (all []string) {
		for _, part := range slurm.Parts(list) {
			part, _, _ = strings.Cut(part, "(")
			if last := part[strings.LastIndex(part, ":")+1:]; strings.TrimLeft(last, "0123456789") == last {
				part += ":1" // "nic" and "nic:hdr" are one each
			}
			all = append(all, part)
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(split(a), split(b))
}

// The marks of the lines that setup keeps in gres.conf.
const (
	begin = "# gresnet setup made these lines"
	end   = "# gresnet setup made the lines above"
)

// gresConf has a line for each HCA.
func (p *planner) gresConf(file string) {
	t, understood := p.openConf(file)
	if !understood {
		return
	}
	at := t.cut()
	if p.hasNICs(t) {
		t.content = t.was
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
	p.change()
}

// hasNICs tells whether the site itself has lines about HCAs of this node: setup does not know what
// they mean, unless they are the right ones.
func (p *planner) hasNICs(t *text) bool {
	has := false
	for _, l := range t.lines() {
		for _, name := range p.Gres {
			devices, err := slurm.Conf{l}.Devices(p.Node, name)
			if err != nil {
				p.refuse(err.Error(), correct)
			}
			has = has || err != nil || len(devices) > 0
			if len(devices) == 0 {
				continue
			}
			if wanted, is := p.site(t.file); is && wanted {
				continue
			}
			p.refuse(fmt.Sprintf("%s has %s of this node already: %s", place(l), name, l), "GN238 take the line out, if gresnet is to number the HCAs, then run setup again")
		}
	}
	return has
}

// site tells whether the lines of the site's gres.conf name the files that setup would.
func (p *planner) site(file string) (same, is bool) {
	conf, err := slurm.Read(p.Root, file)
	if err != nil {
		return false, false
	}
	var files []string
	for _, name := range p.Gres {
		devices, err := conf.Devices(p.Node, name)
		if err != nil {
			return false, false
		}
		for _, d := range devices {
			files = append(files, d.File)
		}
	}
	return slices.Equal(files, p.Files), true
}

// cut removes the lines between the marks, and these. It returns their place, or the place for new ones.
func (t *text) cut() (at int) {
	first, after, place := -1, -1, 0
	for line := range strings.Lines(t.content) {
		switch strings.TrimSpace(line) {
		case begin:
			first = place
		case end:
			after = place + len(line)
		}
		place += len(line)
	}
	if first < 0 || after < first {
		return len(t.content)
	}
	t.content = t.content[:first] + t.content[after:]
	return first
}

// cgroupConf has jobs open the GPUs that they were given, and no others.
func (p *planner) cgroupConf(file, slurmConf string) {
	t, understood := p.openConf(file)
	if !understood {
		return
	}
	version, _ := p.version(p.text(slurmConf), path.Dir(slurmConf))
	for _, err := range version.CgroupFaults(t.lines()) {
		p.refuse(err.Error(), correct)
	}
	all := t.keys("ConstrainDevices")
	switch {
	case len(all) == 0:
		t.add("ConstrainDevices=yes")
		p.change()
	case !strings.EqualFold(last(all).Value, "yes"):
		p.Plan.Notes = append(p.Plan.Notes, fmt.Sprintf("%s says ConstrainDevices=%s: it stays, and jobs can open GPUs that they were not given", place(all[len(all)-1]), last(all).Value))
	}
}

// What plugstack.conf and the node's own file that it includes say. A login host has the first, too, and no such file.
const (
	stackInclude = "include " + slurm.NodeStack
	stackLine    = "required spank_gresnet.so batch=auto"
)

// plugstack has Slurm load the plugin.
func (p *planner) plugstack(slurmConf string) {
	conf, _ := slurm.Read(p.Root, slurmConf) // what it does not read is refused as a line of slurm.conf
	file := conf.Plugstack(path.Dir(slurmConf))
	if dir := p.without(conf, path.Dir(slurmConf)); dir != "" {
		p.refuse("spank_gresnet.so is not in "+dir+": no step would start with "+stackLine, "GN474 install the package gresnet-spank for this version of Slurm")
		return
	}
	t := p.text(file)
	if t.there {
		lines, err := slurm.ReadPlugstack(p.Root, file)
		if err != nil {
			p.refuse(err.Error(), "GN239 mend the file, then run setup again")
			return
		}
		if i := slices.IndexFunc(lines, func(l slurm.StackLine) bool { return l.Is("gresnet") }); i >= 0 {
			if lines[i].Need != "required" {
				p.refuse(fmt.Sprintf("%s has %s", file, lines[i]), "GN240 say required: where the plugin fails, tasks would run in the node's network")
			}
			return
		}
	}
	own, understood := p.open(slurm.NodeStack)
	if !understood {
		return
	}
	own.add(stackLine)
	p.change()
	if !slices.ContainsFunc(strings.Split(t.content, "\n"), func(l string) bool { return slices.Equal(strings.Fields(l), strings.Fields(stackInclude)) }) {
		t.add(stackInclude)
	}
	p.change()
}

// without returns the folders of Slurm's plugins, if they lack gresnet's.
func (p *planner) without(conf slurm.Conf, dir string) string {
	dirs, _ := plugin.Dirs(p.Root, conf, dir)
	known := false
	for _, d := range dirs {
		plugins, _ := fs.Glob(p.Root, path.Join(strings.TrimPrefix(d, "/"), "*.so"))
		known = known || len(plugins) > 0
		if slices.ContainsFunc(plugins, func(name string) bool { return path.Base(name) == "spank_gresnet.so" }) {
			return ""
		}
	}
	if !known {
		return "" // where Slurm's are is not known
	}
	return strings.Join(dirs, ", ")
}

// slurm plans what Slurm's files are to say: slurm.conf and those beside it. Where slurm.conf is not this node's alone, a
// person has to see to what setup would refuse.
func (p *planner) slurm(file string) {
	before := len(p.Plan.Refusals)
	p.plugstack(file)
	p.cgroupConf(path.Join(path.Dir(file), "cgroup.conf"), file)
	p.gresConf(path.Join(path.Dir(file), "gres.conf"))
	p.slurmConf(file)
	if !p.isTheirs(file) {
		return
	}
	where := "in files that other hosts have, too"
	if p.Configless {
		where = "on the controller"
	}
	for _, r := range p.Plan.Refusals[before:] {
		_, do := hint.Cut(r.Do)
		p.Plan.Notes = append(p.Plan.Notes, where+": "+r.Text+"; "+do)
	}
	p.Plan.Refusals = p.Plan.Refusals[:before]
}

// configless lists what the controller's files lack, on a node that has its files of Slurm from there. A
// script in a folder is the node's own.
func (p *planner) configless(file string) {
	p.dir, p.Configless = path.Dir(file), true
	p.Plan.Notes = append(p.Plan.Notes, "slurmd has its files from the controller ("+p.dir+"): they are not changed here")
	p.slurm(file)
}

// enabled is the link by which systemd starts the unit that readies the node at boot.
const enabled = "/etc/systemd/system/multi-user.target.wants/gresnet.service"

// units returns where that unit may be.
func units() []string {
	return []string{"/etc/systemd/system/gresnet.service", "/usr/lib/systemd/system/gresnet.service", "/lib/systemd/system/gresnet.service"}
}

// node plans what is the node's own.
func (p *planner) node() {
	for _, file := range p.Files {
		if _, err := fs.Lstat(p.Root, strings.TrimPrefix(file, "/")); err != nil {
			p.Plan.Edits = append(p.Plan.Edits, Edit{Path: file, Placeholder: true})
		}
	}
	p.toml()
	if !p.Systemd {
		return
	}
	p.unit()
	if _, err := fs.Lstat(p.Root, strings.TrimPrefix(enabled, "/")); err == nil {
		return
	}
	for _, unit := range units() {
		if _, err := p.read(unit); err == nil {
			p.Plan.Edits = append(p.Plan.Edits, Edit{Path: enabled, Link: unit})
			return
		}
	}
	p.Plan.Notes = append(p.Plan.Notes, "gresnet.service is not installed: nothing readies the node at boot")
}

// toml plans what gresnet.toml is to say.
func (p *planner) toml() {
	if p.HCATables == "" && p.Mode == "" {
		return
	}
	t, understood := p.open(p.Toml)
	if !understood {
		return
	}
	if p.ForShared != "" {
		p.refuse(fmt.Sprintf("%s has %s, which is for shared mode", p.Toml, p.ForShared), "GN821 take it out: in exclusive mode its jobs fail")
		return
	}
	if p.Mode != "" {
		if slices.ContainsFunc(strings.Split(t.content, "\n"), func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "[rdma]") }) {
			p.refuse(p.Toml+" has a table [rdma] already", "GN241 set mode = \""+p.Mode+"\" in it")
			return
		}
		t.add("\n[rdma]\nmode = \"" + p.Mode + "\"")
		p.Plan.Notes = append(p.Plan.Notes, "the RDMA netns mode is "+p.Mode+" after a reboot")
	}
	if p.HCATables != "" {
		t.add("\n" + strings.TrimRight(p.HCATables, "\n"))
	}
	p.change()
}
