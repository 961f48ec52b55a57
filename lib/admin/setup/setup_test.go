package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
	"gresnet/test/stamptest"
)

// whatever returns one of several.
func whatever[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// tree are the files of a node: "" is a folder, "-> X" a link.
type tree map[string]string

const bare = "SlurmctldHost=ctl\nGresTypes=gpu\nNodeName=node1 CPUs=4 Gres=gpu:8\nPartitionName=all Nodes=ALL\n"

func base() tree {
	return tree{
		"etc/slurm/slurm.conf": bare, "etc/slurm/gres.conf": "Name=gpu File=/dev/nvidia[0-7]\n",
		"etc/slurm/plugstack.conf": "include /etc/slurm/plugstack.conf.d/*.conf\n", "etc/slurm/cgroup.conf": "ConstrainCores=yes\n",
		"etc/gresnet/gresnet.toml": "[slurm]\nsource = [\"scontrol\"]\n",
		"usr/sbin/gresnet-prolog":  "\x7fELF\x00", "usr/sbin/gresnet-epilog": "\x7fELF\x00",
		"usr/lib/systemd/system/gresnet.service": "[Unit]\n",
		"var/lib/gresnet":                        "", "etc/systemd/system": "",
	}
}

// someSite returns a node that a site may have, and that setup understands.
func someSite(r *rand.Rand) tree {
	t := base()
	lines := []string{
		"SlurmctldHost=ctl",
		whatever(r, "GresTypes=gpu", "grestypes = gpu # theirs", "GresTypes=gpu,nic", "", "GresTypes=\"gpu\"", "GresTypes=gpu\nGresTypes=gpu,tmp"),
		whatever(r, "PrologFlags=X11", "PrologFlags=Alloc,Serial", "", "PrologFlags=Contain", "prologflags=serial"),
		whatever(r, "", "PropagateResourceLimits=ALL", "PropagateResourceLimits=CPU,RLIMIT_MEMLOCK", "PropagateResourceLimits=MEMLOCK", "propagateresourcelimitsexcept=NONE", "PropagateResourceLimitsExcept=NOFILE", "PropagateResourceLimits=NONE"),
		whatever(r, "", "Prolog=/usr/sbin/gresnet-prolog", "Prolog=/etc/slurm/prolog.d/*", "Prolog=prolog.d/*"),
		whatever(r, "", "Epilog=/usr/sbin/gresnet-epilog", "Epilog=/etc/slurm/epilog.d/*"),
		whatever(r, "", "NodeName=DEFAULT Gres=gpu:4,nic:hdr:1", "NodeName=DEFAULT CPUs=4"),
		whatever(r, "NodeName=node1", "NodeName=node1 Gres=gpu:8(S:0-1),nic:7 CPUs=4", "NodeName=node1 CPUs=4 # ours", "nodename=node1 gres=nic:hdr:1,nic:ndr:1", "NodeName=node2 CPUs=4\nNodeName=node1 NodeAddr=10.0.0.1", `NodeName=node1 Reason="a = b" CPUs=4`,
			"NodeName=node1 CPUs=4 \\ \n NodeAddr=10.9.0.1", "NodeName=node1 \\\n\tCPUs=4 \\ # theirs\n Gres=gpu:8 \\\r\n NodeAddr=10.9.0.1\r", `NodeName=node1 Reason="rack \#4" Gres="gpu:8"`, `NodeName=node1# theirs`),
		whatever(r, "# the end", `MailProg=/bin/a \`, `JobCompPass=a\#b \ `, "PartitionName=all Nodes=ALL", "\n\n", "PluginDir=/opt/a:/opt/b"),
	}
	r.Shuffle(len(lines)-2, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] }) // DEFAULT comes before or after, too
	t["etc/slurm/slurm.conf"] = strings.Join(lines, whatever(r, "\n", "\n\n")) + whatever(r, "", "\n")
	for _, name := range []string{"etc/slurm/prolog.d/50-site", "etc/slurm/epilog.d/50-site"} {
		t[name] = "#!/bin/sh\n"
	}
	if whatever(r, true, false) {
		t["etc/slurm/prolog.d/00-gresnet"] = prologScript
	}
	switch r.IntN(3) {
	case 0:
		delete(t, "etc/slurm/gres.conf")
	case 1:
		t["etc/slurm/gres.conf"] = "Name=gpu File=/dev/nvidia[0-7]" // without an end
	}
	switch r.IntN(4) {
	case 0:
		delete(t, "etc/slurm/plugstack.conf")
	case 1:
		t["etc/slurm/plugstack.conf"] = "required spank_pyxis.so"
	case 2:
		t["etc/slurm/plugstack.conf.d/gresnet.conf"] = "required spank_gresnet.so\n"
	}
	switch r.IntN(4) {
	case 0:
		delete(t, "etc/slurm/cgroup.conf")
	case 1:
		t["etc/slurm/cgroup.conf"] = "ConstrainDevices=no\n"
	case 2:
		t["etc/slurm/cgroup.conf"] = "constraindevices=yes"
	}
	if whatever(r, true, false) {
		t["etc/systemd/system/multi-user.target.wants/gresnet.service"] = "-> /usr/lib/systemd/system/gresnet.service"
	}
	switch r.IntN(4) {
	case 0:
		t["usr/lib/systemd/system/slurmd.service"] = "[Service]\nLimitMEMLOCK=infinity\n"
	case 1:
		t["usr/lib/systemd/system/slurmd.service"] = "[Service]\nType=notify\n"
	case 2:
		t["usr/lib/systemd/system/slurmd.service"] = "[Service]\nLimitMEMLOCK=infinity\n"
		t["etc/systemd/system/slurmd.service.d/override.conf"] = "[Service]\nLimitMEMLOCK=8M\n"
	}
	if whatever(r, true, false) {
		t["var/lib/gresnet/gres/nic0"] = "\n"
	}
	return t
}

// lay makes the files in a folder, with owners and modes of all kinds.
func (t tree) lay(tb testing.TB, r *rand.Rand) string {
	tb.Helper()
	root, err := os.MkdirTemp("/dev/shm", "setup") // where a sync takes no time
	if err != nil {
		root = tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(root) })
	for _, name := range slices.Sorted(maps.Keys(t)) {
		file, content := filepath.Join(root, name), t[name]
		to, link := strings.CutPrefix(content, "-> ")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		var err error
		switch {
		case link:
			err = os.Symlink(to, file)
		case content == "":
			err = os.MkdirAll(file, 0o755)
		default:
			content = strings.TrimPrefix(content, "\x00")
			err = os.WriteFile(file, []byte(content), 0o600)
			when := time.Unix(1_700_000_000+r.Int64N(1000), 7)
			if err == nil {
				err = os.Chown(file, r.IntN(2)*os.Geteuid(), 0)
			}
			if err == nil && os.Geteuid() == 0 {
				err = os.Chown(file, whatever(r, 0, 1000), whatever(r, 0, 1000))
			}
			if err == nil {
				err = os.Chmod(file, whatever[fs.FileMode](r, 0o644, 0o600, 0o755, 0o640))
			}
			if err == nil && path.Base(name) == "spank_gresnet.so" {
				err = os.Chmod(file, 0o644) // users load it, too
			}
			if err == nil {
				err = os.Chtimes(file, when, when)
			}
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return root
}

// picture returns all that a folder has: contents, owners, modes, times of files.
func picture(tb testing.TB, root string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprint(info.Mode(), stat.Uid, stat.Gid)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += info.ModTime().String() + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += to
		}
		all[strings.TrimPrefix(name, root)] = text
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func differ(before, after map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			all = append(all, fmt.Sprintf("%s was\n%q\nand is\n%q", name, before[name], after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[name]; !was {
			all = append(all, name+" was not there")
		}
	}
	return strings.Join(all, "\n")
}

func siteAt(root string) Site {
	return Site{
		Root: os.DirFS(root), Node: "node1", Toml: "/etc/gresnet/gresnet.toml", Gres: []string{"nic"},
		GresLines: []string{"Name=nic Type=hdr File=/var/lib/gresnet/gres/nic0 # mlx5_0", "Name=nic Type=ndr File=/var/lib/gresnet/gres/nic1 # mlx5_1"},
		Files:     []string{"/var/lib/gresnet/gres/nic0", "/var/lib/gresnet/gres/nic1"}, Systemd: true,
	}
}

// setUp makes all changes.
func setUp(t *testing.T, n Node) {
	t.Helper()
	if err := n.Do(Make(siteAt(n.Root))); err != nil {
		t.Fatal(err)
	}
}

// undo takes all changes back. when is a run's number, say.
func undo(t *testing.T, n Node, when any) {
	t.Helper()
	if _, left, err := n.Undo(false); err != nil || len(left) > 0 {
		t.Fatalf("%v: undo leaves %v: %v", when, left, err)
	}
}

// isSetUp says what Slurm would still miss.
func isSetUp(root string) error {
	files := os.DirFS(root)
	conf, err := slurm.Read(files, "/etc/slurm/slurm.conf")
	if err != nil {
		return err
	}
	for _, key := range []string{"prolog", "epilog"} {
		scripts := slurm.Glob(files, conf.Last(key), "/etc/slurm")
		if !slices.ContainsFunc(scripts, func(f string) bool { return slurm.CallOf(files, f, "gresnet-"+key) == slurm.Calls }) {
			return fmt.Errorf("%s=%s does not call gresnet: %v", key, conf.Last(key), scripts)
		}
	}
	if count, is := conf.Promised("node1", "nic"); count != 2 || !is {
		return fmt.Errorf("slurm.conf promises %d", count)
	}
	if flags := strings.ToLower(conf.Last("prologflags")); !strings.Contains(flags, "contain") && !strings.Contains(flags, "x11") {
		return fmt.Errorf("PrologFlags=%s", flags)
	}
	if propagated(conf) {
		return errors.New("slurm.conf has tasks lock as much memory as whoever submits their job")
	}
	if limit, is := ofUnit(files); is && limit != "infinity" {
		return fmt.Errorf("slurmd's unit has LimitMEMLOCK=%s", limit)
	}
	if types := strings.Split(conf.Last("grestypes"), ","); !slices.Contains(types, "nic") {
		return fmt.Errorf("GresTypes=%s", types)
	}
	gres, err := slurm.Read(files, "/etc/slurm/gres.conf")
	if err != nil {
		return err
	}
	devices, err := gres.Devices("node1", "nic")
	if err != nil || len(devices) != 2 {
		return fmt.Errorf("gres.conf has %v: %v", devices, err)
	}
	for _, d := range devices {
		if _, err := os.Stat(filepath.Join(root, d.File)); err != nil {
			return err
		}
	}
	if bad := append(conf.Faults(), gres.GresFaults()...); len(bad) > 0 {
		return errors.Join(bad...)
	}
	stack, err := slurm.ReadPlugstack(files, "/etc/slurm/plugstack.conf")
	if err != nil || !slices.ContainsFunc(stack, func(l slurm.StackLine) bool { return l.Is("gresnet") && l.Need == "required" }) {
		return fmt.Errorf("plugstack.conf has %v: %v", stack, err)
	}
	_, err = os.Lstat(filepath.Join(root, enabled))
	return err
}

// What setup changes gresnet check says, and says no more of once it is changed.
func TestNothingIsChangedThatCheckDoesNotSay(t *testing.T) {
	bad := func(p Plan) (all []report.Finding) {
		for _, f := range p.Findings {
			// Slurm's folder of plugins is not here, files have any mode, and ConstrainDevices=no is the site's to say.
			if f.Level != report.OK && f.About != "plugin" && !slices.Contains([]string{"GN117", "GN892"}, f.ID) {
				all = append(all, f)
			}
		}
		return all
	}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 11))
		root := someSite(r).lay(t, r)
		p := Make(siteAt(root))
		for _, e := range p.Edits {
			about := path.Base(e.Path)
			switch {
			case e.Placeholder, e.Path == slurm.NodeStack, e.isScript():
				continue // a line that names them is said, or why there is none
			case e.Path == dropIn:
				about = "memlock"
			}
			said := func(f report.Finding) bool { return f.About == about || f.About == "memlock" && about == "slurm.conf" }
			if !slices.ContainsFunc(bad(p), said) {
				t.Fatalf("seed %d: setup changes %s, and check says only %v:\n%s", seed, e.Path, bad(p), strings.Join(e.difference(), "\n"))
			}
		}
		if err := (Node{Root: root}).Do(p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if left := bad(Make(siteAt(root))); len(left) > 0 {
			text, _ := os.ReadFile(root + "/etc/slurm/slurm.conf")
			t.Fatalf("seed %d: after setup check says %v\n%s", seed, left, text)
		}
	}
}

func TestSetupMakesASiteWorkASecondRunChangesNothingAndUndoGivesAllBack(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		root := someSite(r).lay(t, r)
		before := picture(t, root)
		n, s := Node{Root: root}, siteAt(root)
		s.Mode = whatever(r, "", "exclusive")
		p := Make(s)
		if len(p.Refusals) > 0 || len(n.Check(p)) > 0 {
			t.Fatalf("seed %d: refused: %v", seed, p.Refusals)
		}
		if d := differ(before, picture(t, root)); d != "" {
			t.Fatalf("seed %d: planning changes: %s", seed, d)
		}
		if err := n.Do(p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := isSetUp(root); err != nil {
			text, _ := os.ReadFile(root + "/etc/slurm/slurm.conf")
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		s.Mode = "" // gresnet.toml says it now
		if again := Make(s); again.Changes() || len(again.Refusals) > 0 {
			t.Fatalf("seed %d: a second run changes %+v, refuses %v", seed, again.Edits, again.Refusals)
		}
		for _, name := range []string{"gres.conf", "slurm.conf"} { // the site goes on from there
			file := filepath.Join(root, "etc/slurm", name)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err == nil {
				err = os.WriteFile(file, append(slices.Clone(text), "\n# more\n"...), 0o644)
			}
			again := Make(s)
			if err != nil || again.Changes() || len(again.Refusals) > 0 {
				t.Fatalf("seed %d: a run after the site's own changes changes %+v, refuses %v: %v", seed, again.Edits, again.Refusals, err)
			}
			if err := errors.Join(os.WriteFile(file, text, 0o644), os.Chtimes(file, info.ModTime(), info.ModTime())); err != nil {
				t.Fatal(err)
			}
		}
		undo(t, n, seed)
		if d := differ(before, picture(t, root)); d != "" {
			t.Fatalf("seed %d: after undo: %s", seed, d)
		}
	}
}

// killed runs something until its n-th change of the node, and tells whether it came so far.
func killed(n *Node, at int, run func()) (is bool) {
	count := 0
	n.action = func() {
		if count == at {
			panic("killed")
		}
		count++
	}
	defer func() { is = recover() != nil; n.action = nil }()
	run()
	return false
}

// files are those of a picture that Slurm or a person could read, with their content.
func contents(tb testing.TB, root string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for name := range picture(tb, root) {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil && filepath.Base(name)[0] != '.' && !strings.HasPrefix(name, Store) {
			all[name] = string(data)
		}
	}
	return all
}

func TestKilledAnywhereFilesAreWholeAndUndoGivesAllBack(t *testing.T) {
	for at, alive := 0, false; !alive; at++ {
		r := rand.New(rand.NewPCG(uint64(at), 9))
		site := someSite(r)
		root := site.lay(t, r)
		before, old := picture(t, root), contents(t, root)
		n := Node{Root: root}
		p := Make(siteAt(root))
		whole := map[string]bool{}
		for _, e := range p.Edits {
			whole[e.Path+string(e.After)] = true
		}
		alive = !killed(&n, at, func() {
			if err := n.Do(p); err != nil {
				t.Fatal(err)
			}
		})
		for name, text := range contents(t, root) {
			if was, there := old[name]; !(there && was == text) && !whole[name+text] {
				t.Fatalf("killed at %d: %s is torn: %q", at, name, text)
			}
		}
		// the next run goes on, or the undo comes at once, and is killed, too
		if r.IntN(2) == 0 {
			again := Make(siteAt(root))
			if err := n.Do(again); err != nil || isSetUp(root) != nil {
				t.Fatalf("killed at %d, then run again: %v, %v", at, err, isSetUp(root))
			}
		}
		for killed(&n, r.IntN(12), func() { undo(t, n, at) }) {
		}
		if d := differ(before, picture(t, root)); d != "" {
			t.Fatalf("killed at %d: after undo: %s", at, d)
		}
	}
}

// devices are a node's device nodes as far as setup knows them.
type devices struct {
	jobs       error
	restricted bool // runs have restricted them
	undone     bool // no run restricts them
	access     uint32
}

func (d *devices) Idle() error { return d.jobs }
func (d *devices) Redo() error { d.undone = false; return nil }

func (d *devices) Picture() (p devnode.Picture, err error) {
	if !d.restricted {
		p.Nodes = map[string]devnode.Node{"rdma_cm": {Access: devnode.Access{Mode: d.access}}}
	}
	return p, nil
}

func (d *devices) Reopen(p devnode.Picture) error {
	d.undone, d.restricted, d.access = true, false, p.Nodes["rdma_cm"].Access.Mode
	return d.jobs
}

func TestUndoGivesUsersTheDeviceNodesBackKilledAnywhere(t *testing.T) {
	for at, alive := 0, false; !alive; at++ {
		r := rand.New(rand.NewPCG(uint64(at), 11))
		root := someSite(r).lay(t, r)
		before := picture(t, root)
		d := &devices{access: 0o660}
		n := Node{Root: root, Devices: d}
		if !killed(&n, at, func() { setUp(t, n) }) {
			d.restricted, d.access, alive = true, 0o600, true // the first job
		}
		setUp(t, n) // knows no better than the first run
		for killed(&n, r.IntN(12), func() { undo(t, n, at) }) {
		}
		if d.restricted || !d.undone || d.access != 0o660 {
			t.Fatalf("killed at %d: after undo: %+v", at, d)
		}
		if d := differ(before, picture(t, root)); d != "" {
			t.Fatalf("killed at %d: after undo: %s", at, d)
		}
		if err := n.Do(Make(siteAt(root))); err != nil || d.undone {
			t.Fatalf("after another setup no run restricts device nodes: %v", err)
		}
	}
}

func TestBeforeSlurmReadsAnythingOfSetupsJobsAreHeldToRecordsAndAfterUndoNoMore(t *testing.T) {
	for at, alive := 0, false; !alive; at++ {
		r := rand.New(rand.NewPCG(uint64(at), 13))
		root := someSite(r).lay(t, r)
		before, old := picture(t, root), contents(t, root)
		s := &Records{state.Dir(t.TempDir()), []string{"nic"}}
		n := Node{Root: root, Records: s}
		p := Make(siteAt(root))
		alive = !killed(&n, at, func() {
			if err := n.Do(p); err != nil {
				t.Fatal(err)
			}
		})
		for _, file := range []string{s.State.Expected(), n.at(expected)} {
			if _, err := os.Lstat(file); err != nil && (alive || !maps.Equal(contents(t, root), old)) {
				t.Fatalf("killed at %d, with Slurm's files changed: %v", at, err)
			}
		}
		if !alive && r.IntN(2) == 0 {
			continue
		}
		setUp(t, n)
		for killed(&n, r.IntN(12), func() { undo(t, n, at) }) {
		}
		if _, err := os.Lstat(s.State.Expected()); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("killed at %d: after undo jobs are held to records: %v", at, err)
		}
		if d := differ(before, picture(t, root)); d != "" {
			t.Fatalf("killed at %d: after undo: %s", at, d)
		}
	}
}

func TestASiteThatNeedsNoChangeIsHeldToRecordsAllTheSame(t *testing.T) {
	n := Node{Root: t.TempDir(), Records: &Records{state.Dir(t.TempDir()), []string{"nic"}}}
	if err := n.Expect(); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(n.at(expected)); err != nil || to != "nic" {
		t.Errorf("%s, %v", to, err)
	}
}

func TestWhileAJobHasALeaseNothingIsUndone(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	root := base().lay(t, r)
	d := &devices{access: 0o666}
	n := Node{Root: root, Devices: d}
	setUp(t, n)
	done := picture(t, root)
	d.jobs = errors.New("these jobs hold HCAs of this node: 4711")
	if undone, _, err := n.Undo(false); !errors.Is(err, d.jobs) || len(undone) > 0 {
		t.Errorf("undone %v: %v", undone, err)
	}
	if changed := differ(done, picture(t, root)); changed != "" || d.undone {
		t.Errorf("something was undone: %s", changed)
	}
}

// A slurmd that runs calls them for the next job, and drains the node if they are gone.
func TestUndoLeavesTheScriptsOfAnSlurmdThatRunsUntilTheNextUndo(t *testing.T) {
	tree := base()
	root := tree.lay(t, rand.New(rand.NewPCG(8, 8)))
	before := picture(t, root)
	n := Node{Root: root}
	setUp(t, n)
	scripts := []string{"/etc/slurm/gresnet-prolog", "/etc/slurm/gresnet-epilog"}
	for range 2 {
		if _, left, err := n.Undo(true); err != nil || len(left) > 0 {
			t.Fatalf("undo leaves %q: %v", left, err)
		}
		for _, file := range scripts {
			if _, err := os.Stat(n.at(file)); err != nil {
				t.Errorf("slurmd calls what is gone: %v", err)
			}
		}
		if called, err := n.Called(); err != nil || !slices.Equal(called, scripts) {
			t.Errorf("it says of %q: %v", called, err)
		}
	}
	if text, err := os.ReadFile(n.at("/etc/slurm/slurm.conf")); err != nil || strings.Contains(string(text), "gresnet") {
		t.Errorf("slurm.conf is not as it was: %v\n%s", err, text)
	}
	setUp(t, n) // and back, with the scripts there
	if _, _, err := n.Undo(true); err != nil {
		t.Fatal(err)
	}
	undo(t, n, "after a restart")
	if d := differ(before, picture(t, root)); d != "" {
		t.Error(d)
	}
}

func TestUndoLeavesWhatSomebodyElseHasChangedSince(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	root := base().lay(t, r)
	n := Node{Root: root}
	setUp(t, n)
	file := filepath.Join(root, "etc/slurm/slurm.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mine := string(text) + "PartitionName=new Nodes=ALL\n"
	if err := os.WriteFile(file, []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, left, err := n.Undo(false)
		if err != nil || !slices.Equal(left, []string{"/etc/slurm/slurm.conf"}) {
			t.Fatalf("left %v: %v", left, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != mine {
		t.Errorf("undo changed the file: %s", text)
	}
	if copied, err := os.ReadFile(filepath.Join(root, Store, "etc+slurm+slurm.conf")); err != nil || string(copied) != bare {
		t.Errorf("the copy: %q, %v", copied, err)
	}
	// restored by hand, it is nobody's any more
	if err := os.WriteFile(file, []byte(bare), 0o644); err != nil {
		t.Fatal(err)
	}
	undo(t, n, "at last")
	if _, err := os.Stat(filepath.Join(root, Store)); err == nil {
		t.Error("the copies are still there")
	}
}

func TestWhatUndoLeavesIsRestoredByTheLinesThatItSays(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := Node{Root: base().lay(t, r)}
		setUp(t, n)
		file := filepath.Join(n.Root, "etc/slurm/slurm.conf")
		change := func(f func(text string) string) {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, []byte(f(string(text))), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		// a person's line, and sometimes a line lost, fixed, and lost again
		change(func(text string) string { return "PartitionName=new Nodes=ALL\n" + text })
		for range r.IntN(3) {
			change(func(text string) string { return strings.Replace(text, "GresTypes=", "# was ", 1) })
			if err := n.Do(Fix(siteAt(n.Root), n.Check)); err != nil {
				t.Fatal(err)
			}
		}
		change(func(text string) string { return text + "PartitionName=newer Nodes=ALL\n" })
		if _, left, err := n.Undo(false); err != nil || !slices.Equal(left, []string{"/etc/slurm/slurm.conf"}) {
			t.Fatalf("left %v: %v", left, err)
		}
		lines, err := n.ByHand("/etc/slurm/slurm.conf")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if _, left, err := n.Undo(false); err != nil || len(left) != 1 {
				t.Fatalf("seed %d: before %q is done it leaves %v: %v", seed, l, left, err)
			}
			change(func(text string) string {
				if put, is := strings.CutPrefix(l, "+ "); is {
					return text + put + "\n"
				}
				return strings.ReplaceAll("\n"+text, "\n"+l[2:]+"\n", "\n")[1:]
			})
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "gresnet") || !strings.Contains(string(text), "PartitionName=new ") {
			t.Errorf("seed %d: by %q the file becomes\n%s", seed, lines, text)
		}
		if _, left, err := n.Undo(false); err != nil || len(left) > 0 {
			t.Fatalf("seed %d: after %q it leaves %v: %v:\n%s", seed, lines, left, err, text)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(text) {
			t.Errorf("seed %d: undo changed a person's file: %v", seed, err)
		}
	}
}

func TestWhatIsFixedAfterSomebodyElseIsRestoredAsTheyLeftIt(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		root := base().lay(t, r)
		n := Node{Root: root}
		setUp(t, n)
		file := filepath.Join(root, "etc/slurm/slurm.conf")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		for i := range lines {
			if lost := whatever(r, "Prolog=", "Epilog=", "PrologFlags=", "GresTypes="); strings.HasPrefix(lines[i], lost) {
				lines[i] = ""
			}
		}
		theirs := strings.Join(lines, "") + "PartitionName=new Nodes=ALL\n"
		if err := errors.Join(os.WriteFile(file, []byte(theirs), 0o644), os.Remove(filepath.Join(root, "var/lib/gresnet/gres/nic1"))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := n.Do(Fix(siteAt(root), n.Check)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := isSetUp(root); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if p := Fix(siteAt(root), n.Check); p.Changes() {
			t.Fatalf("seed %d: fixing again changes %+v", seed, p.Edits)
		}
		_, left, err := n.Undo(false)
		if err != nil || theirs != string(text)+"PartitionName=new Nodes=ALL\n" && !slices.Equal(left, []string{"/etc/slurm/slurm.conf"}) {
			t.Fatalf("seed %d: left %v: %v", seed, left, err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != theirs {
			t.Fatalf("seed %d: %v, the file is\n%s\nand was\n%s", seed, err, now, theirs)
		}
		if copied, err := os.ReadFile(filepath.Join(root, Store, "etc+slurm+slurm.conf")); err != nil || string(copied) != bare {
			t.Errorf("seed %d: the copy from before setup: %q, %v", seed, copied, err)
		}
	}
}

func TestWhereSetupWouldGuessOnlyWhatIsTheNodesOwnIsFixed(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	tree := base()
	tree["etc/slurm/slurm.conf"] = "Include nodes.conf\n" + bare
	s := siteAt(tree.lay(t, r))
	s.HCATables, s.Mode = "[[hca]]\n", "exclusive"
	p := Fix(s, func(Plan) []Refusal { return nil })
	var files []string
	for _, e := range p.Edits {
		files = append(files, e.Path)
	}
	want := append(slices.Clone(s.Files), enabled)
	if len(p.Refusals) != 1 || !slices.Equal(files, want) {
		t.Errorf("refused %+v, fixed %q, want %q", p.Refusals, files, want)
	}
}

func TestSetupFindsTheNodeByItsHostName(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tr := base()
	tr["etc/slurm/slurm.conf"] = strings.Replace(bare, "NodeName=node1", "NodeName=gpu001 NodeHostname=node1", 1)
	root := tr.lay(t, r)
	p := Make(siteAt(root))
	if len(p.Refusals) > 0 {
		t.Fatal(p.Refusals)
	}
	all := ""
	for _, e := range p.Edits {
		all += string(e.After)
	}
	for _, want := range []string{"NodeName=gpu001 NodeHostname=node1 CPUs=4 Gres=gpu:8,nic:hdr:1,nic:ndr:1", "NodeName=gpu001 Name=nic Type=hdr"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
}

func TestWhatSetupDoesNotUnderstandItRefusesAndSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(tree)
		want   string
	}{
		"an include of nothing":              {func(t tree) { t["etc/slurm/slurm.conf"] = "Include nodes.conf\n" + bare }, "read /etc/slurm/nodes.conf"},
		"an include of nothing in gres.conf": {func(t tree) { t["etc/slurm/gres.conf"] = "Include more.conf\n" }, "read /etc/slurm/more.conf"},
		"a range in an include": {func(t tree) {
			t["etc/slurm/slurm.conf"], t["etc/slurm/nodes.conf"] = "Include nodes.conf\nPartitionName=all Nodes=ALL\n", "NodeName=node[1-9] CPUs=4\n"
		}, "/etc/slurm/nodes.conf:1 is about several nodes: NodeName=node[1-9]"},
		"NICs in an include": {func(t tree) {
			t["etc/slurm/gres.conf"], t["etc/slurm/more.conf"] = "Include more.conf\n", "Name=nic Count=4\n"
		}, "/etc/slurm/more.conf:1 has nic of this node already: Name=nic Count=4"},
		"an odd line":        {func(t tree) { t["etc/slurm/slurm.conf"] = "NodeName=node1 CPUs\n" }, `/etc/slurm/slurm.conf:1: "CPUs" is not KEY=VALUE`},
		"an odd list":        {func(t tree) { t["etc/slurm/slurm.conf"] = "NodeName=x[1\nNodeName=node1\n" }, `/etc/slurm/slurm.conf:1: parse hostlist "x[1"`},
		"an odd cgroup.conf": {func(t tree) { t["etc/slurm/cgroup.conf"] = "ConstrainCores\n" }, `/etc/slurm/cgroup.conf:1: "ConstrainCores" is not KEY=VALUE`},
		"a key in cgroup.conf that Slurm does not take": {func(t tree) { t["etc/slurm/cgroup.conf"] = "CgroupReleaseAgentDir=/x\n" },
			"/etc/slurm/cgroup.conf:1: Slurm has no CgroupReleaseAgentDir"},
		"a NIC in capitals": {func(t tree) { t["etc/slurm/gres.conf"] = "Name=NIC Files=/x,/y\n" }, "/etc/slurm/gres.conf:1 has nic of this node already: Name=NIC Files=/x,/y"},
		"a range":           {func(t tree) { t["etc/slurm/slurm.conf"] = "NodeName=node[1-9] CPUs=4\n" }, "/etc/slurm/slurm.conf:1 is about several nodes: NodeName=node[1-9]"},
		"no node":           {func(t tree) { t["etc/slurm/slurm.conf"] = "NodeName=node7 CPUs=4\n" }, "/etc/slurm/slurm.conf has no line with NodeName=node1"},
		"a link": {func(t tree) {
			t["etc/gresnet/plugstack.conf"] = "-> ../../common/plugstack.conf"
		}, "/etc/gresnet/plugstack.conf is not a file of its own, but a symbolic link"},
		"a prolog of the site's": {func(t tree) {
			t["etc/slurm/slurm.conf"], t["etc/slurm/prolog.sh"] = "Prolog=/etc/slurm/prolog.sh\n"+bare, "#!/bin/sh\nexit 0\n"
		}, "/etc/slurm/slurm.conf:1 has a Prolog of the site's, /etc/slurm/prolog.sh"},
		"NICs of the site's": {func(t tree) { t["etc/slurm/gres.conf"] = "Name=nic File=/dev/infiniband/uverbs[0-1]\n" }, "/etc/slurm/gres.conf:1 has nic of this node already"},
		"no plugin": {func(t tree) {
			t["etc/slurm/slurm.conf"] += "PluginDir=/opt/slurm\n"
			t["opt/slurm/auth_munge.so"] = "ELF"
		}, "spank_gresnet.so is not in PluginDir /opt/slurm: no step would start with required spank_gresnet.so batch=auto"},
		"a NIC without a file":         {func(t tree) { t["etc/slurm/gres.conf"] = "Name=nic Count=4\n" }, "/etc/slurm/gres.conf:1 has nic of this node already: Name=nic Count=4"},
		"an optional plugin":           {func(t tree) { t["etc/slurm/plugstack.conf"] = "optional spank_gresnet.so\n" }, "/etc/slurm/plugstack.conf has optional spank_gresnet.so"},
		"no slurm.conf":                {func(t tree) { delete(t, "etc/slurm/slurm.conf") }, "there is no slurm.conf in "},
		"NoHold":                       {func(t tree) { t["etc/slurm/slurm.conf"] = "PrologFlags=NoHold\n" + bare }, "/etc/slurm/slurm.conf:1 has PrologFlags=NoHold"},
		"RunInJob":                     {func(t tree) { t["etc/slurm/slurm.conf"] = "PrologFlags=RunInJob\n" + bare }, "/etc/slurm/slurm.conf:1 has PrologFlags=RunInJob"},
		"a mode of the site's":         {func(t tree) { t["etc/gresnet/gresnet.toml"] = "[rdma]\nmode = \"shared\"\n" }, "/etc/gresnet/gresnet.toml has a table [rdma] already"},
		"what exclusive mode excludes": {func(tree) {}, `/etc/gresnet/gresnet.toml has isolation = "devices", which is for shared mode`},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, 2))
			tree := base()
			c.change(tree)
			s := siteAt(tree.lay(t, r))
			s.Mode, s.ForShared = "exclusive", ""
			if strings.HasPrefix(c.want, "/etc/gresnet/gresnet.toml has isolation") {
				s.ForShared = `isolation = "devices"`
			}
			p := Make(s)
			if len(p.Refusals) != 1 || !strings.HasPrefix(p.Refusals[0].Text, c.want) || p.Refusals[0].Do == "" || p.Changes() {
				t.Errorf("%+v, %d edits", p.Refusals, len(p.Edits))
			}
		})
	}
}

// sourcing is a prolog that says nothing of gresnet's: what it sources does.
const sourcing = "#!/bin/sh\n. /etc/slurm/lib.sh\n"

func TestWhatARunHasShownOfASitesScriptCountsMoreThanItsText(t *testing.T) {
	now := time.Now()
	by := func(script string) state.Caller { return state.Caller{Slurmd: true, Script: script} }
	for name, c := range map[string]struct {
		script  string
		records state.Seen
		refused bool
		noted   bool
	}{
		"no run":                  {sourcing, state.Seen{}, true, false},
		"a run through it":        {sourcing, state.Seen{Prolog: &state.Record{Caller: by("/etc/slurm/prolog.sh"), At: now.Add(time.Minute)}}, false, false},
		"a run before it changed": {sourcing, state.Seen{Prolog: &state.Record{Caller: by("/etc/slurm/prolog.sh"), At: now.Add(-time.Hour)}}, true, false},
		"a run through another":   {sourcing, state.Seen{Prolog: &state.Record{Caller: by("/etc/slurm/old.sh"), At: now.Add(time.Minute)}}, true, false},
		"a run of a person's":     {sourcing, state.Seen{Prolog: &state.Record{Caller: state.Caller{Other: "bash"}, At: now.Add(time.Minute)}}, true, false},
		"it names the program":    {"#!/bin/sh\n/usr/sbin/gresnet-prolog || exit\n", state.Seen{}, false, true},
		"it names it, and has run": {"#!/bin/sh\n/usr/sbin/gresnet-prolog || exit\n",
			state.Seen{Prolog: &state.Record{Caller: by("/etc/slurm/prolog.sh"), At: now.Add(time.Minute)}}, false, false},
		"it names it, and swallows": {"#!/bin/sh\n/usr/sbin/gresnet-prolog || true\n",
			state.Seen{Prolog: &state.Record{Caller: by("/etc/slurm/prolog.sh"), At: now.Add(time.Minute)}, Missed: &state.Missed{At: now.Add(2 * time.Minute)}}, true, false},
		"it calls the program alone, and something was missed": {prologScript, state.Seen{Missed: &state.Missed{At: now.Add(time.Minute)}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			tree := base()
			tree["etc/slurm/slurm.conf"], tree["etc/slurm/prolog.sh"] = "Prolog=/etc/slurm/prolog.sh\n"+bare, c.script
			s := siteAt(tree.lay(t, rand.New(rand.NewPCG(5, 5))))
			if err := os.Chtimes(filepath.Join(fmt.Sprint(s.Root), "etc/slurm/prolog.sh"), now, now); err != nil {
				t.Fatal(err)
			}
			s.Records = c.records
			p := Make(s)
			if refused := len(p.Refusals) == 1 && strings.Contains(p.Refusals[0].Text, "has a Prolog of the site's"); refused != c.refused {
				t.Errorf("refused: %v", p.Refusals)
			}
			noted := slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "stays as it is: whether it calls it") })
			if noted != c.noted {
				t.Errorf("notes: %q", p.Notes)
			}
		})
	}
}

func TestWhereSlurmTakesSeveralLinesGresnetHasItsOwnLastForPrologsAndFirstForEpilogs(t *testing.T) {
	const site = "Prolog=/etc/slurm/a.sh\nEpilog=/etc/slurm/b.sh # theirs\nPrologFlags=Contain\nProlog=/etc/slurm/c/*\nEpilog=\\\n/etc/slurm/d.sh\n"
	for _, c := range []struct {
		version uint32
		several bool
	}{{0x160508, false}, {0x180404, false}, {0x180500, true}, {0x1a0505, true}, {0, false}} {
		tree := base()
		tree["etc/slurm/slurm.conf"] = site + bare
		for _, name := range []string{"a.sh", "b.sh", "c/x", "d.sh"} {
			tree["etc/slurm/"+name] = "#!/bin/sh\n"
		}
		if c.version != 0 {
			const dir = "usr/lib/x86_64-linux-gnu/slurm-wlm/"
			tree[dir+"auth_munge.so"] = string(stamptest.Plugin("auth/munge", c.version).Data)
			tree[dir+"spank_gresnet.so"] = string(stamptest.Plugin("spank", c.version).Data)
		}
		root := tree.lay(t, rand.New(rand.NewPCG(7, 7)))
		p := Make(siteAt(root))
		if (len(p.Refusals) == 0) != c.several {
			t.Errorf("%x: refused %v", c.version, p.Refusals)
		}
		if !c.several {
			continue
		}
		if err := (Node{Root: root}).Do(p); err != nil {
			t.Fatal(err)
		}
		conf, err := slurm.Read(os.DirFS(root), "/etc/slurm/slurm.conf")
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string][]string{
			"prolog": {"/etc/slurm/a.sh", "/etc/slurm/c/*", "/etc/slurm/gresnet-prolog"},
			"epilog": {"/etc/slurm/gresnet-epilog", "/etc/slurm/b.sh", "/etc/slurm/d.sh"},
		} {
			var got []string
			for _, l := range conf.All(key) {
				got = append(got, l.Keys[0].Value)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%x: %s is %q, wanted %q", c.version, key, got, want)
			}
		}
		if again := Make(siteAt(root)); again.Changes() || len(again.Refusals) > 0 {
			t.Errorf("%x: a second run changes %v, refuses %v", c.version, again.Edits, again.Refusals)
		}
	}
}

func TestIncludesAreFollowedAndALineIsChangedInTheFileThatHasIt(t *testing.T) {
	site := base()
	site["etc/slurm/slurm.conf"] = "ClusterName=c\nInclude empty.conf\nInclude nodes.conf\nPartitionName=all Nodes=ALL\n"
	site["etc/slurm/empty.conf"] = "# nothing\n"
	site["etc/slurm/nodes.conf"] = "GresTypes=gpu\nInclude rack.conf\n"
	site["etc/slurm/rack.conf"] = "NodeName=node1 CPUs=4 Gres=gpu:8 # theirs\n"
	site["etc/slurm/gres.conf"] = "Include gpus.conf\n"
	site["etc/slurm/gpus.conf"] = "Name=gpu File=/dev/null\n"
	r := rand.New(rand.NewPCG(11, 11))
	n := Node{Root: site.lay(t, r)}
	before := picture(t, n.Root)
	setUp(t, n)
	if err := isSetUp(n.Root); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nodes.conf": "GresTypes=gpu,nic\nInclude rack.conf\n",
		"rack.conf":  "NodeName=node1 CPUs=4 Gres=gpu:8,nic:hdr:1,nic:ndr:1 # theirs\n",
		"empty.conf": "# nothing\n", "gpus.conf": "Name=gpu File=/dev/null\n",
	} {
		if text, err := os.ReadFile(filepath.Join(n.Root, "etc/slurm", name)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", name, text, err, want)
		}
	}
	if again := Make(siteAt(n.Root)); again.Changes() || len(again.Refusals) > 0 {
		t.Errorf("a second run changes %v, refuses %v", again.Edits, again.Refusals)
	}
	undo(t, n, "at last")
	if d := differ(before, picture(t, n.Root)); d != "" {
		t.Error(d)
	}
}

func TestAFileOfItsOwnWithAnotherNameIsRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	root := base().lay(t, r)
	if err := os.Link(filepath.Join(root, "etc/slurm/gres.conf"), filepath.Join(root, "etc/other.conf")); err != nil {
		t.Fatal(err)
	}
	bad := Node{Root: root}.Check(Make(siteAt(root)))
	if len(bad) != 1 || bad[0].Text != "/etc/slurm/gres.conf has another name, too (a hard link)" {
		t.Errorf("%q", bad)
	}
}

// The node's own files are changed. Of files on a network, and of links, a person is told which lines they need.
func TestFilesThatOtherHostsHaveStayAndTheLinesThatTheyNeedArePrinted(t *testing.T) {
	site := base()
	delete(site, "etc/slurm/plugstack.conf")
	site["etc/slurm/slurm.conf"] = "-> ../../nfs/slurm.conf"
	site["nfs/slurm.conf"] = bare + "Include /nfs/more.conf\nEpilog=/nfs/epilog.d/*\n"
	site["nfs/more.conf"] = "PrologFlags=Alloc\n"
	site["nfs/epilog.d/50-site"] = "#!/bin/sh\n"
	n := Node{Root: site.lay(t, rand.New(rand.NewPCG(3, 3)))}
	n.Network = func(file string) string {
		file = strings.TrimPrefix(file, n.Root)
		if file == "/etc/slurm" || strings.HasPrefix(file, "/nfs") {
			return "NFS"
		}
		return ""
	}
	s := siteAt(n.Root)
	s.Network = n.Shared
	p := Make(s)
	if bad := append(p.Refusals, n.Check(p)...); len(bad) > 0 {
		t.Fatal(bad)
	}
	for _, e := range p.Edits {
		if path.Dir(e.Path) == "/nfs" || path.Base(e.Path) == "slurm.conf" || e.Path == "/etc/slurm/plugstack.conf" || strings.HasPrefix(e.Path, "/nfs") {
			t.Errorf("setup changes %s", e.Path)
		}
	}
	var out strings.Builder
	p.PrintController(&out)
	const want = `
first have all nodes have these scripts, which do nothing on a host without gresnet:
  install -D /usr/share/gresnet/prolog.d/00-gresnet /etc/slurm/gresnet-prolog
  install -D /usr/share/gresnet/epilog.d/zz-gresnet /nfs/epilog.d/zz-gresnet

these files are other hosts', too, and need these lines:
  /etc/slurm/plugstack.conf: include /etc/gresnet/plugstack.conf
      # the same on all hosts: one without that file has no plugin
  /etc/slurm/slurm.conf: GresTypes=gpu,nic
      # jobs can ask for NICs
  /etc/slurm/slurm.conf: NodeName=node1 CPUs=4 Gres=gpu:8,nic:hdr:1,nic:ndr:1
      # Slurm counts the node's NICs
  /etc/slurm/slurm.conf: Prolog=/etc/slurm/gresnet-prolog
      # it gives a job its HCAs before the job begins; if it fails, Slurm drains the node
  /etc/slurm/slurm.conf: PropagateResourceLimitsExcept=MEMLOCK
      # RDMA programs lock more memory than whoever submits a job often may
  /nfs/more.conf: PrologFlags=Alloc,Contain
      # Prolog runs on each of a job's nodes before the job's first step
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := n.Do(p); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(n.at(slurm.NodeStack)); err != nil || string(text) != stackLine+"\n" {
		t.Errorf("the node's own file has %q: %v", text, err)
	}
	site["nfs/slurm.conf"] = strings.Replace(bare, "NodeName=node1", "NodeName=node[1-9]", 1)
	s.Root = os.DirFS(site.lay(t, rand.New(rand.NewPCG(4, 4))))
	if p := Make(s); len(p.Refusals) > 0 || !slices.ContainsFunc(p.Notes, func(n string) bool {
		return strings.HasPrefix(n, "in files that other hosts have, too: /etc/slurm/slurm.conf:") && strings.Contains(n, "put Gres=gpu:8,nic:hdr:1,nic:ndr:1 into it")
	}) {
		t.Errorf("of a line about several nodes the node is told %q, %v", p.Notes, p.Refusals)
	}
}

// systemctl enable writes the path by which systemd knows the unit, which is /lib on some distributions.
func TestUndoDisablesTheServiceThatAPersonHasEnabledAgainSince(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	n := Node{Root: base().lay(t, r)}
	setUp(t, n)
	link := n.at(enabled)
	if err := errors.Join(os.Remove(link), os.Symlink("/lib/systemd/system/gresnet.service", link)); err != nil {
		t.Fatal(err)
	}
	undo(t, n, "at last")
	if now, err := n.state(enabled); err != nil || now != absent {
		t.Errorf("the service is enabled still, and restricts device nodes at the next boot: %s, %v", now, err)
	}
}

// After an undo that left files the site may have changed who can open device nodes.
func TestASecondSetupNotesAgainWhoCanOpenDeviceNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	n := Node{Root: base().lay(t, r)}
	d := &devices{access: 0o666}
	n.Devices = d
	setUp(t, n)
	file := filepath.Join(n.Root, "etc/slurm/slurm.conf")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, "PartitionName=new Nodes=ALL\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, left, err := n.Undo(false); err != nil || len(left) != 1 {
		t.Fatalf("left %v: %v", left, err)
	}
	d.access = 0o660
	setUp(t, n)
	d.restricted, d.access = true, 0o600
	if _, _, err := n.Undo(false); err != nil || d.access != 0o660 {
		t.Errorf("rdma_cm is %o, and was 660 before setup: %v", d.access, err)
	}
}

func TestTheScriptsAreThoseOfConf(t *testing.T) {
	for name, want := range map[string]string{"prolog.d/" + prologD: prologScript, "epilog.d/" + epilogD: epilogScript, "plugstack.conf": stackLine} {
		text, err := os.ReadFile("../../../conf/" + name)
		if err != nil || !strings.HasSuffix(string(text), strings.TrimSuffix(want, "\n")+"\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPlanIsShownAsLinesThatComeAndGo(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	root := base().lay(t, r)
	var out strings.Builder
	Make(siteAt(root)).Print(&out)
	const want = `/var/lib/gresnet/gres/nic0 (a device node without a driver)
      # Slurm numbers NICs by such files
/var/lib/gresnet/gres/nic1 (a device node without a driver)
/etc/systemd/system/multi-user.target.wants/gresnet.service -> /usr/lib/systemd/system/gresnet.service
      # it readies the node at each boot
/etc/gresnet/plugstack.conf (a new file)
  + required spank_gresnet.so batch=auto
      # tasks and batch scripts run in their job's network; without the plugin no step starts
/etc/slurm/plugstack.conf
  + include /etc/gresnet/plugstack.conf
      # the same on all hosts: one without that file has no plugin
/etc/slurm/cgroup.conf
  + ConstrainDevices=yes
      # jobs open the GPUs that they were given, and no others
/etc/slurm/gres.conf
  + # gresnet setup made these lines
  + NodeName=node1 Name=nic Type=hdr File=/var/lib/gresnet/gres/nic0 # mlx5_0
      # Slurm gives jobs NICs by these
  + NodeName=node1 Name=nic Type=ndr File=/var/lib/gresnet/gres/nic1 # mlx5_1
  + # gresnet setup made the lines above
/etc/slurm/gresnet-prolog (a script)
      # it runs gresnet's program; on a host without gresnet it does nothing
/etc/slurm/gresnet-epilog (a script)
/etc/slurm/slurm.conf
  - GresTypes=gpu
  - NodeName=node1 CPUs=4 Gres=gpu:8
  + GresTypes=gpu,nic
      # jobs can ask for NICs
  + NodeName=node1 CPUs=4 Gres=gpu:8,nic:hdr:1,nic:ndr:1
      # Slurm counts the node's NICs
  + Prolog=/etc/slurm/gresnet-prolog
      # it gives a job its HCAs before the job begins; if it fails, Slurm drains the node
  + Epilog=/etc/slurm/gresnet-epilog
      # it returns the HCAs; if it fails, Slurm drains the node
  + PrologFlags=Contain
      # Prolog runs on each of a job's nodes before the job's first step
  + PropagateResourceLimitsExcept=MEMLOCK
      # RDMA programs lock more memory than whoever submits a job often may
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestEachLineThatSetupWritesIsExplainedOrExplainsItself(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	seen := map[string]bool{}
	for range 200 {
		site := siteAt(someSite(r).lay(t, r))
		site.HCATables, site.Mode = "[[hca]]\nindex = 0\n", "exclusive"
		for _, e := range Make(site).Edits {
			for _, line := range written(t, e) {
				if whyOf(e, line) == "" {
					t.Errorf("%s: nothing says what this is for: %q", e.Path, line)
				}
				word, _, _ := strings.Cut(line, "=")
				seen[strings.ToLower(word)] = true
			}
		}
	}
	for _, word := range []string{"", "grestypes", "nodename", "prolog", "epilog", "prologflags", "propagateresourcelimits", "propagateresourcelimitsexcept", "constraindevices", "[[hca]]", "[rdma]"} {
		if !seen[word] {
			t.Errorf("no site that was made up gets a line with %s", word)
		}
	}
}

// written returns what an edit adds, as Slurm reads it: lines, heads of tables; empty for a file without text.
// A file that begins with a comment of gresnet's says itself what it is for.
func written(t *testing.T, e Edit) (lines []string) {
	t.Helper()
	switch text := string(e.After); {
	case text == "":
		return []string{""}
	case !e.There && strings.Contains(text, "\n# For "), !e.There && strings.HasPrefix(text, "# gresnet setup made this file: "):
		return nil
	case path.Ext(e.Path) == ".toml":
		for line := range strings.Lines(strings.TrimPrefix(text, string(e.Before))) {
			if strings.HasPrefix(line, "[") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	case path.Base(e.Path) == "plugstack.conf":
		return []string{stackLine}
	}
	before, err := slurm.ParseFile(e.Path, string(e.Before))
	if err != nil {
		t.Fatal(err)
	}
	after, err := slurm.ParseFile(e.Path, string(e.After))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range after.Lines {
		if !slices.ContainsFunc(before.Lines, func(b slurm.Line) bool { return b.String() == l.String() }) {
			lines = append(lines, l.String())
		}
	}
	return lines
}

func TestANodeWithoutFilesOfItsOwnIsToldWhatTheControllersLack(t *testing.T) {
	for _, cache := range []string{"run/slurm/conf/", "var/spool/slurmd/conf-cache/"} {
		t.Run(cache, func(t *testing.T) { lackedByControllers(t, cache) })
	}
}

// lackedByControllers has slurmd keep the controller's files in a folder.
func lackedByControllers(t *testing.T, cache string) {
	t.Helper()
	site := func(root string) Site {
		s := siteAt(root)
		s.SlurmConf = "/" + cache + "slurm.conf"
		return s
	}
	served := func(files tree) tree {
		n := tree{}
		for name, text := range files {
			n[strings.Replace(name, "etc/slurm/", cache, 1)] = text
		}
		return n
	}
	files := base()
	delete(files, "etc/slurm/plugstack.conf")
	files["etc/slurm/slurm.conf"] = bare + "Epilog=/etc/slurm/epilog.d/*\n"
	root := served(files).lay(t, rand.New(rand.NewPCG(6, 6)))
	plan := Make(site(root))
	var out strings.Builder
	plan.PrintController(&out)
	const want = `
first copy to all nodes, where they do nothing without gresnet: /etc/slurm/gresnet-prolog

the controller's files, which slurmd gets from there, need these lines:
  plugstack.conf: include /etc/gresnet/plugstack.conf
      # the same on all hosts: one without that file has no plugin
  cgroup.conf: ConstrainDevices=yes
      # jobs open the GPUs that they were given, and no others
  gres.conf: NodeName=node1 Name=nic Type=hdr File=/var/lib/gresnet/gres/nic0 # mlx5_0
      # Slurm gives jobs NICs by these
  gres.conf: NodeName=node1 Name=nic Type=ndr File=/var/lib/gresnet/gres/nic1 # mlx5_1
  slurm.conf: GresTypes=gpu,nic
      # jobs can ask for NICs
  slurm.conf: NodeName=node1 CPUs=4 Gres=gpu:8,nic:hdr:1,nic:ndr:1
      # Slurm counts the node's NICs
  slurm.conf: Prolog=/etc/slurm/gresnet-prolog
      # it gives a job its HCAs before the job begins; if it fails, Slurm drains the node
  slurm.conf: PrologFlags=Contain
      # Prolog runs on each of a job's nodes before the job's first step
  slurm.conf: PropagateResourceLimitsExcept=MEMLOCK
      # RDMA programs lock more memory than whoever submits a job often may
`
	if out.String() != want || len(plan.Refusals) > 0 {
		t.Errorf("got %v\n%s\nwant\n%s", plan.Refusals, out.String(), want)
	}
	own := false
	for _, e := range plan.Edits {
		if strings.HasPrefix(e.Path, "/"+cache) {
			t.Errorf("setup changes what slurmd has from the controller: %s", e.Path)
		}
		own = own || e.Path == "/etc/slurm/epilog.d/"+epilogD
	}
	if !own {
		t.Error("setup puts no script into the node's own folder of epilogs")
	}
	// When the controller has the lines, the node is told no more.
	for _, line := range plan.Theirs {
		name, text, _ := strings.Cut(line, ": ")
		if key, _, _ := strings.Cut(text, "="); key == "GresTypes" || key == "NodeName" && name == "slurm.conf" {
			continue // a line that is changed
		}
		files["etc/slurm/"+name] += text + "\n"
	}
	files["etc/slurm/slurm.conf"] = strings.NewReplacer("GresTypes=gpu", "GresTypes=gpu,nic", "Gres=gpu:8", "Gres=gpu:8,nic:hdr:1,nic:ndr:1").Replace(files["etc/slurm/slurm.conf"])
	files["etc/slurm/epilog.d/"+epilogD] = epilogScript
	after := served(files)
	after["etc/slurm/epilog.d/"+epilogD] = epilogScript
	if plan := Make(site(after.lay(t, rand.New(rand.NewPCG(7, 7))))); len(plan.Theirs) > 0 || len(plan.Refusals) > 0 {
		t.Errorf("the node is told %q, %v", plan.Theirs, plan.Refusals)
	}
	files["etc/slurm/slurm.conf"] = strings.Replace(bare, "NodeName=node1", "NodeName=node[1-9]", 1)
	plan = Make(site(served(files).lay(t, rand.New(rand.NewPCG(8, 8)))))
	if len(plan.Refusals) > 0 || !slices.ContainsFunc(plan.Notes, func(n string) bool {
		return strings.HasPrefix(n, "on the controller: ") && strings.Contains(n, "NodeName=node[1-9]; if all of them have HCAs like this one, put Gres=gpu:8,nic:hdr:1,nic:ndr:1 into it")
	}) {
		t.Errorf("of a line about several nodes the node is told %q, %v", plan.Notes, plan.Refusals)
	}
}
