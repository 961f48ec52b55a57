// Package setup makes a node with an installed package one whose jobs get HCAs: it changes Slurm's
// files and the node's, and restores them byte for byte. The plan is pure; the actions are in do.go.
package setup

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
)

// Site is the node that setup changes.
type Site struct {
	Root      fs.FS  // the node's files, from / on
	Node      string // Slurm's name for the node
	SlurmConf string // path of slurm.conf; empty: look in the usual places
	Toml      string // path of gresnet.toml
	State     string // the state directory

	Gres      []string                 // GRES names that mean an HCA; none: Slurm's count says nothing
	GresLines []string                 // for gres.conf, of this node; none: its HCAs are not known
	Files     []string                 // the placeholder files that these name
	HCATables string                   // [[hca]] tables that gresnet.toml must have; empty: none
	Mode      string                   // the RDMA netns mode that is wished for, and that gresnet.toml does not say; empty: none
	ForShared string                   // what gresnet.toml has that jobs cannot have in Mode; empty: nothing
	Systemd   bool                     // the node has systemd
	Network   func(file string) string // the kind of file system, if other hosts have the file, too; nil: none have
	Records   state.Seen
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
	Findings   []report.Finding // what is wrong with the files, which setup changes or a person must
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
	p.devices = map[string][]slurm.Device{}
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
		if err := twoFiles(s.Root, s.SlurmConf); err != nil {
			p.found(report.FailBy("slurm.conf", err))
			p.Plan.Notes = append(p.Plan.Notes, err.Error()+": gresnet check says what to do")
		}
	}
	if len(p.Plan.Refusals) > 0 {
		p.Plan.Edits = nil
	}
	return p.Plan
}

// twoFiles fails if a configless slurmd has another slurm.conf than commands find.
func twoFiles(root fs.FS, said string) error {
	other, dir := slurm.Other(root, said), path.Dir(slurm.Find(root, said))
	if other == "" {
		return nil
	}
	return hint.With(fmt.Errorf("the controller sent slurmd another one, %s: %s/slurm.conf may not be slurmd's", other, dir),
		"GN790 if slurmd has --conf-server, move "+dir+"/slurm.conf away; else delete the link "+path.Dir(other))
}

// Fix plans as much of it as it need not guess about: all, or what is the node's own alone. refused
// finds files that must not be replaced.
func Fix(s Site, refused func(Plan) []Refusal) Plan {
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

	devices map[string][]slurm.Device // of GRES about which the site has lines of its own that stay
	asked   int                       // how many findings there were when a file was begun
}

func (p *planner) refuse(text, do string) {
	if r := (Refusal{text, do}); !slices.Contains(p.Plan.Refusals, r) {
		p.Plan.Refusals = append(p.Plan.Refusals, r)
	}
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
		p.refused(path.Base(file), err)
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
		p.explain(e)
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
	for _, err := range t.lines().Faults() {
		p.refused("slurm.conf", err)
	}
	p.script(t, dir, "Prolog", prolog)
	p.script(t, dir, "Epilog", epilog)
	p.flags(t)
	p.gresTypes(t)
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
	bad := p.scripts(t.lines(), dir, key)
	p.found(bad...)
	if len(bad) == 0 {
		p.found(report.Well("slurm.conf", "%s is gresnet's", key))
	}
	all := t.keys(key)
	if len(all) == 0 || last(all).Value == "" {
		t.add(key + "=" + p.wrapper(dir, key, program))
		return
	}
	version, known := p.version(t, dir)
	if known && version < slurm.SeveralLines {
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
	case known && version >= slurm.SeveralLines:
		p.line(t, key, p.wrapper(dir, key, program), version)
	default:
		value := last(all).Value
		p.refuse(fmt.Sprintf("%s has a %s of the site's, %s", place(all[len(all)-1]), key, value), callBy(key, value, program))
	}
}

// calls tells whether a script of slurmd's calls the program, so far as a run has shown that since it
// changed, or its text does. If that is not known, setup leaves it to check.
func (p *planner) calls(key, file, program string) bool {
	call := slurm.CallOf(p.Root, file, program)
	if call == slurm.Calls {
		return true
	}
	var changed time.Time
	if info, err := fs.Stat(p.Root, strings.TrimPrefix(file, "/")); err == nil {
		changed = info.ModTime()
	}
	if missed := p.Records.MissedSince(changed); key == "Prolog" && missed != nil {
		return false
	}
	if p.Records.CameThrough(program, file, changed) {
		return true
	}
	if call == slurm.Mentions {
		p.Plan.Notes = append(p.Plan.Notes, fmt.Sprintf("%s names %s and stays as it is: whether it calls it, and ends with its exit code, shows gresnet check after a job (%s)", file, program, key))
	}
	return call == slurm.Mentions
}

// version is that of the installed Slurm.
func (p *planner) version(t *text, dir string) (slurm.Version, bool) {
	dirs, _ := slurm.PluginDirs(p.Root, t.lines(), dir)
	return slurm.InstalledVersion(p.Root, dirs)
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
func (p *planner) line(t *text, key, program string, version slurm.Version) {
	first := t.keys(key)[0]
	if key == "Prolog" {
		t.add(key + "=" + program)
	} else {
		t.before(first, key+"="+program)
	}
	p.Plan.Notes = append(p.Plan.Notes, fmt.Sprintf("%s has several lines with %s, as Slurm %s here takes them: a host with one before %s that has the same file heeds the last of them alone", t.file, key, version, slurm.SeveralLines))
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

// flags sees to PrologFlags: slurmd must run the prolog when a job starts, on each of its nodes, and not before a step
// here or there. The other flags imply Alloc (Slurm src/common/read_config.c).
func (p *planner) flags(t *text) {
	all, have := t.keys("PrologFlags"), ""
	if len(all) > 0 {
		have = last(all).Value
	}
	flags := strings.FieldsFunc(strings.ToLower(have), func(r rune) bool { return r == ',' || r == ' ' })
	has := func(flag string) bool { return slices.Contains(flags, flag) }
	if has("nohold") && !has("contain") && !has("x11") {
		p.refuse(place(all[len(all)-1])+" has PrologFlags=NoHold, with which Slurm does not take Contain", "GN235 take NoHold out, if you can do without it")
	}
	switch {
	case has("runinjob"):
		p.refuse(place(all[len(all)-1])+" has PrologFlags=RunInJob, with which prologs have no more memory than a job's user gives the job (--mem): the kernel kills one there, and Slurm drains the node", "GN902 take RunInJob out, and leave Contain")
		p.found(report.Fail("slurm.conf", "GN126 leave RunInJob out", "PrologFlags has RunInJob: prologs have no more memory than a job's user gives the job (--mem), so any user can drain the node; and the extern step begins before the prolog, so a cleanup cannot tell that a job without an epilog has ended"))
	case has("contain"), has("x11"):
		p.found(report.Well("slurm.conf", "PrologFlags=%s", have))
	case has("alloc"):
		p.found(report.Warn("slurm.conf", "GN894 gresnet setup, or set PrologFlags=Contain", "PrologFlags has no Contain: jobs have no extern step, and so no [limits], and no session of ssh"))
	default:
		p.found(report.Fail("slurm.conf", "GN127 gresnet setup, or set PrologFlags=Contain", "PrologFlags has neither Contain nor Alloc: a step may start before its job has HCAs"))
	}
	if !has("contain") && !has("x11") && !has("runinjob") && !has("nohold") {
		t.list("PrologFlags", "Contain")
	}
}

// The marks of the lines that setup keeps in gres.conf.
const (
	begin = "# gresnet setup made these lines"
	end   = "# gresnet setup made the lines above"
)

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

// cgroupConf has jobs open the GPUs that they were given, and no others, where Slurm gives GPUs.
func (p *planner) cgroupConf(file, slurmConf string) {
	t, understood := p.openConf(file)
	if !understood {
		return
	}
	version, _ := p.version(p.text(slurmConf), path.Dir(slurmConf))
	faults := version.CgroupFaults(t.lines())
	for _, err := range faults {
		p.refused("cgroup.conf", err)
	}
	if len(faults) > 0 || !p.hasGPUs(path.Join(path.Dir(slurmConf), "gres.conf")) {
		return
	}
	all := t.keys("ConstrainDevices")
	switch {
	case len(all) == 0:
		p.found(report.Warn("cgroup.conf", "GN891 gresnet setup, or add ConstrainDevices=yes", "it does not say ConstrainDevices: jobs can open GPUs that they were not given"))
		t.add("ConstrainDevices=yes")
		p.change()
	case !slurm.IsYes(last(all).Value):
		p.found(report.Warn("cgroup.conf", "GN892 say yes, if users' job scripts ask for all GPUs that they use", "%s says ConstrainDevices=%s: jobs can open GPUs that they were not given", place(all[len(all)-1]), last(all).Value))
	}
}

// hasGPUs tells whether Slurm gives GPUs of this node to jobs.
func (p *planner) hasGPUs(file string) bool {
	lines := p.text(file).lines()
	devices, err := lines.Devices(p.Node, "gpu")
	return err == nil && (len(devices) > 0 || lines.AutoDetect(p.Node) != "")
}

// What plugstack.conf and the node's own file that it includes say. A login host has the first, too, and no such file.
const (
	stackInclude = "include " + slurm.NodeStack
	stackLine    = "required spank_gresnet.so batch=auto"
)

// plugstack has Slurm load the plugin, as one without which no task starts, if it is one for this Slurm.
func (p *planner) plugstack(slurmConf string) {
	const about = "plugstack.conf"
	const do = "GN103 gresnet setup, or include /etc/gresnet/plugstack.conf in it, a copy of /usr/share/gresnet/plugstack.conf"
	conf, _ := slurm.Read(p.Root, slurmConf) // what it does not read is refused as a line of slurm.conf
	file := conf.Plugstack(path.Dir(slurmConf))
	name, have := "spank_gresnet.so", false
	lines, err := slurm.ReadPlugstack(p.Root, file)
	t := p.text(file)
	if i := slices.IndexFunc(lines, func(l slurm.StackLine) bool { return l.Is("gresnet") }); i >= 0 && err == nil {
		name, have = lines[i].Plugin, true
		if need := lines[i].Need; need != "required" {
			p.found(report.Fail(about, "GN869 write required in place of "+need, "%s is %s: where it fails, tasks run in the node's network", name, need))
			p.refuse(fmt.Sprintf("%s has %s", file, lines[i]), "GN240 say required: where the plugin fails, tasks would run in the node's network")
		}
	}
	switch {
	case err != nil:
		p.found(report.Fail(about, do, "%s", err))
	case !have:
		p.found(report.Fail(about, do, "%s does not have gresnet's plugin: tasks would run in the node's network", file))
	}
	if !p.loads(conf, path.Dir(slurmConf), name) || have {
		return
	}
	if err != nil && t.there {
		p.refuse(err.Error(), "GN239 fix the file, then run setup again")
		return
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

// loads tells whether Slurm loads the plugin, so far as its folders are known.
func (p *planner) loads(conf slurm.Conf, dir, name string) bool {
	dirs, said := slurm.PluginDirs(p.Root, conf, dir)
	f := p.plugin(name, dirs, said)
	p.found(f)
	hasPlugins := func(d string) bool {
		plugins, _ := fs.Glob(p.Root, path.Join(strings.TrimPrefix(d, "/"), "*.so"))
		return len(plugins) > 0
	}
	if f.Level != report.Error || !slices.ContainsFunc(dirs, hasPlugins) {
		return true
	}
	p.refuse(f.Text+": no step would start with "+stackLine, "GN474 install the package gresnet-spank for this version of Slurm")
	return false
}

// slurm plans what Slurm's files are to say: slurm.conf and those beside it. Where slurm.conf is not this node's alone, a
// person has to see to what setup would refuse.
func (p *planner) slurm(file string) {
	before := len(p.Plan.Refusals)
	for _, plan := range []func(){
		func() { p.plugstack(file) },
		func() { p.cgroupConf(path.Join(path.Dir(file), "cgroup.conf"), file) },
		func() { p.gresConf(path.Join(path.Dir(file), "gres.conf")) },
		func() { p.slurmConf(file) },
	} {
		p.asked = len(p.Plan.Findings)
		plan()
	}
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
	told := p.daemon()
	if !p.Systemd {
		return
	}
	p.unit(told)
	if _, err := fs.Lstat(p.Root, strings.TrimPrefix(enabled, "/")); err == nil {
		return
	}
	for _, unit := range units() {
		if _, err := p.read(unit); err == nil {
			p.found(report.Warn("gresnet.service", "GN897 gresnet setup, or systemctl enable gresnet.service", "it is not enabled: nothing readies the node at boot"))
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
