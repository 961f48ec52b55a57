package check_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/admin/check"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/admin/setup"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/trust"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/state"
	"gresnet/test/golden"
	"gresnet/test/netnstest"
	"gresnet/test/stamptest"
)

// edit replaces a text in a file of the node's.
func edit(name, old, with string) func(*check.Site) {
	return func(s *check.Site) {
		text, err := fs.ReadFile(s.Root, name)
		if err != nil || !strings.Contains(string(text), old) {
			panic(fmt.Sprintf("%s lacks %q: %v", name, old, err))
		}
		mode := s.Root.(fstest.MapFS)[name].Mode
		s.Root.(fstest.MapFS)[name] = &fstest.MapFile{Data: []byte(strings.Replace(string(text), old, with, 1)), Mode: mode}
	}
}

// put makes files, executable or not.
func put(mode fs.FileMode, pairs ...string) func(*check.Site) {
	return func(s *check.Site) {
		for i := 0; i < len(pairs); i += 2 {
			s.Root.(fstest.MapFS)[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: mode}
		}
	}
}

// forPartitions gives an HCA in slots for partitions, and a policy a P_Key.
func forPartitions(policy node.PKey) func(*check.Site) {
	return func(s *check.Site) {
		h := hca(2, "ib2")
		h.Gres, h.ID.Slot, h.Part = "", "0", "pkey"
		h.Ports[0].LinkLayer, h.Ports[0].State, h.Ports[0].PKeys = "InfiniBand", "ACTIVE", []node.PKeyText{0xffff, 0x8001}
		c := config.HCA{Gres: "nic", Index: 2, Match: config.Match{Key: "rdma", Value: h.Name}, Part: "pkey", Count: 1}
		s.Inventory.HCAs, s.Config.HCAs = append(s.Inventory.HCAs, h), append(s.Config.HCAs, c)
		s.Config.Policies = append(s.Config.Policies, config.Policy{Silent: true, PKey: policy})
		s.Inventory.SELinux = sysfs.SELinux{Enforcing: true, PKeys: true}
	}
}

// inParts gives the node a PF with two VFs, which an entry gives to jobs, and changes one of them.
func inParts(change func(*report.HCA, *config.HCA)) func(*check.Site) {
	return func(s *check.Site) {
		pf := hca(2, "eth2")
		pf.Gres, pf.ID.PCI, pf.VFs, pf.Ports[0].State = "", "0000:3b:00.0", &report.VFs{Now: 2, Total: 8}, "ACTIVE"
		c := config.HCA{Gres: "nic", Index: 2, Match: config.Match{Key: "pci", Value: pf.ID.PCI}, Part: "vf", Count: 2}
		change(&pf, &c)
		s.Inventory.HCAs, s.Config.HCAs = append(s.Inventory.HCAs, pf), append(s.Config.HCAs, c)
	}
}

func remove(name string) func(*check.Site) {
	return func(s *check.Site) { delete(s.Root.(fstest.MapFS), name) }
}

func all(changes ...func(*check.Site)) func(*check.Site) {
	return func(s *check.Site) {
		for _, change := range changes {
			change(s)
		}
	}
}

const (
	conf     = "etc/slurm/slurm.conf"
	ours     = "#!/bin/sh\nexec /usr/sbin/gresnet-prolog\n"
	oursLast = "#!/bin/sh\nexec /usr/sbin/gresnet-epilog\n"
	theirs   = "#!/bin/sh\n"
)

// wrapped has Slurm run a script of the site's as its prolog.
func wrapped(script string) func(*check.Site) {
	return all(edit(conf, "/usr/sbin/gresnet-prolog", "/etc/slurm/prolog.sh"), put(0o755, "etc/slurm/prolog.sh", script))
}

// missed has the plugin have refused a step.
func missed(s *check.Site) {
	s.Records.Missed = &state.Missed{Text: "gresnet: job 4711: gresnet-prolog failed, and /etc/slurm/prolog.sh went on: not root", At: time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)}
}

// folders has Slurm run folders of scripts.
func folders(change func(*check.Site)) func(*check.Site) {
	return all(
		edit(conf, "/usr/sbin/gresnet-prolog", "/etc/slurm/prolog.d/*"), edit(conf, "/usr/sbin/gresnet-epilog", "/etc/slurm/epilog.d/*"),
		put(0o755, "etc/slurm/prolog.d/00-gresnet", ours, "etc/slurm/prolog.d/50-site", theirs, "etc/slurm/epilog.d/zz-gresnet", oursLast, "etc/slurm/epilog.d/50-site", theirs),
		change)
}

func refused(text string) func(*check.Site) {
	return func(s *check.Site) {
		s.Refusals = []inspect.Refusal{{Entry: gres.Entry{HCA: node.HCA{Name: "mlx5_1"}, Gres: "nic", Index: 1}, Err: errors.New(text)}}
	}
}

// written returns a file of root's that a test makes on this machine: who may write it is the
// kernel's to say.
func written(t *testing.T, name, text string, mode fs.FileMode, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "Test") // users can write nowhere above it, as they can in /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, name)
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(dir, 0o755), os.Chmod(file, mode), os.Chown(file, uid, -1)); err != nil {
		t.Fatal(err)
	}
	return file
}

// row is one misconfiguration: what an administrator did, and how it is made on a node where
// all is well.
type row struct {
	what   string
	change func(*check.Site)
}

// misconfigurations returns the rows of the last section of docs/errors.md.
func misconfigurations(t *testing.T) []row {
	t.Helper()
	program := func(mode fs.FileMode, uid int) func(*check.Site) {
		return func(s *check.Site) { s.ProgramErr = source.CheckProgram(written(t, "hcas", theirs, mode, uid)) }
	}
	scontrol := func(mode fs.FileMode, uid int) func(*check.Site) {
		return func(s *check.Site) { _, s.ScontrolErr = source.FindScontrol(written(t, "scontrol", theirs, mode, uid)) }
	}
	toml := func(text string, mode fs.FileMode, uid int) func(*check.Site) {
		return func(s *check.Site) {
			_, s.ConfigErr = config.Load(written(t, "gresnet.toml", text, mode, uid), true)
		}
	}
	account := func(name string, make func(path string) error) func(*check.Site) {
		return func(s *check.Site) {
			path := filepath.Join(filepath.Dir(written(t, "gresnet.toml", "", 0o644, 0)), name)
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			s.AccountErr = trust.CheckAppend(path)
		}
	}
	// mounted makes a file system for the file's folder.
	mounted := func(flags uintptr, options string) func(string) error {
		return func(path string) error {
			dir := filepath.Dir(path)
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
			return errors.Join(os.Mkdir(dir, 0o700), syscall.Mount("none", dir, "tmpfs", flags, "mode=700,"+options))
		}
	}
	return []row{
		{"`Prolog` is not there", edit(conf, "/usr/sbin/gresnet-prolog", "/usr/local/sbin/gresnet-prolog")},
		{"`Epilog` is misspelt", edit(conf, "/usr/sbin/gresnet-epilog", "/usr/sbin/gresnet-eplog")},
		{"the package is gone, its lines in slurm.conf are not", remove("usr/sbin/gresnet-prolog")},
		{"`Prolog` is not executable", put(0o644, "usr/sbin/gresnet-prolog", "\x7fELF\x00")},
		{"`Epilog` is a folder", edit(conf, "/usr/sbin/gresnet-epilog", "/usr/sbin")},
		{"`Prolog` can be written by users", put(0o757, "usr/sbin/gresnet-prolog", "\x7fELF\x00")},
		{"slurm.conf has no `Prolog`", edit(conf, "Prolog=/usr/sbin/gresnet-prolog\n", "")},
		{"slurm.conf has no `Epilog`", edit(conf, "Epilog=/usr/sbin/gresnet-epilog\n", "")},
		{"a wrapper swallows the exit code, or does not come to the call", all(wrapped("#!/bin/bash\n/usr/sbin/gresnet-prolog || true\n"), missed)},
		{"several `Prolog` lines before Slurm 24.05", all(edit(conf, "Prolog=", "Prolog=/etc/slurm/prolog.sh\nProlog="), put(0o755, "etc/slurm/prolog.sh", theirs), put(0o644, debian+"auth_munge.so", string(stamptest.Plugin("auth/munge", 0x160508).Data)), put(0o644, debian+"spank_gresnet.so", string(stamptest.Plugin("spank", 0x160508).Data)))},
		{"a `Prolog` line after gresnet's", all(edit(conf, "\nEpilog=", "\nProlog=/etc/slurm/prolog.sh\nEpilog="), put(0o755, "etc/slurm/prolog.sh", theirs))},
		{"prolog.d has no file", edit(conf, "/usr/sbin/gresnet-prolog", "/etc/slurm/prolog.d/*")},
		{"prolog.d has a file that is not executable", folders(put(0o644, "etc/slurm/prolog.d/README", "see the wiki\n"))},
		{"gresnet's file in prolog.d is not executable", folders(put(0o644, "etc/slurm/prolog.d/00-gresnet", ours))},
		{"gresnet is not the last of prolog.d", folders(all(remove("etc/slurm/prolog.d/00-gresnet"), put(0o755, "etc/slurm/prolog.d/90-gresnet", ours)))},
		{"gresnet is not the first of epilog.d", folders(all(remove("etc/slurm/epilog.d/zz-gresnet"), put(0o755, "etc/slurm/epilog.d/10-gresnet", oursLast)))},
		{"`PrologFlags` lacks `Contain`", edit(conf, "Contain,X11", "Serial")},
		{"`GresTypes` lacks nic", edit(conf, "gpu,nic", "gpu")},
		{"the node's line has no `Gres=nic`", edit(conf, "CPUs=4", "CPUs=4 Gres=gpu:8")},
		{"the node's line has more NICs than gres.conf", edit(conf, "CPUs=4", "CPUs=4 Gres=gpu:8,nic:8")},
		{"the node's line has the types of NICs in another order than gres.conf", edit(conf, "nic:hdr:1(S:0),nic:ndr:1", "nic:ndr:1,nic:hdr:1(S:0)")},
		{"the node's line has NICs with `no_consume`", edit(conf, "nic:hdr:1(S:0),nic:ndr:1", "nic:no_consume:2")},
		{"the node's line has a type of NICs in another case than gres.conf", edit(conf, "nic:hdr:1(S:0)", "nic:HDR:1(S:0)")},
		{"a backslash has the node's line go on in the next one, which is another", edit(conf, "node[1-9] CPUs=4\n", "node[1-9] CPUs=4 \\ \nCompleteWait=8\n")},
		{"slurm.conf has two keys in one line", edit(conf, "GresTypes", "MailProg=/bin/mail CompleteWait=8\nGresTypes")},
		{"slurm.conf has a line that Slurm does not read", edit(conf, "GresTypes", "ClusterName c\nGresTypes")},
		{"gres.conf has a key that Slurm does not know", edit("etc/slurm/gres.conf", "File=/gres/nic[1]", "Path=/gres/nic[1]")},
		{"slurmd has another slurm.conf, from the controller", put(0o644, "run/slurm/conf/slurm.conf", "SlurmctldHost=other\n")},
		{"slurm.conf includes a file that is not there", edit(conf, "GresTypes", "Include nodes.conf\nGresTypes")},
		{"gres.conf is not there", remove("etc/slurm/gres.conf")},
		{"gres.conf has fewer NICs than the node", edit("etc/slurm/gres.conf", "NodeName=node[1-9] Name=nic Type=ndr File=/gres/nic[1]\n", "")},
		{"gres.conf has another type than the mapping", edit("etc/slurm/gres.conf", "Type=hdr", "Type=ndr")},
		{"gres.conf names device nodes", edit("etc/slurm/gres.conf", "/gres/nic0", "/dev/infiniband/uverbs0")},
		{"a placeholder file is not there", remove("gres/nic1")},
		{"gres.conf has GPUs that the kernel does not have", remove("dev/nvidia7")},
		{"gres.conf has more GPUs than the kernel", gpus(4, nil)},
		{"gres.conf does not say which GPUs it has, and their device nodes are not in the order of their PCI addresses", all(gpus(8, nil), unnamed, func(s *check.Site) { inOrder(s, 0, 1); inOrder(s, 1, 0) })},
		{"the GPUs are divided (MIG), and gres.conf does not say which parts it has", divided(all(gpus(8, nil), unnamed))},
		{"plugstack.conf is not there", remove("etc/slurm/plugstack.conf")},
		{"plugstack.conf lacks the plugin", edit("etc/slurm/plugstack.conf.d/20.conf", "required spank_gresnet.so", "#")},
		{"the plugin is optional", edit("etc/slurm/plugstack.conf.d/20.conf", "required", "optional")},
		{"the plugin does not know an argument", edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "pmix=on")},
		{"two arguments of the plugin exclude each other", edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "batch all")},
		{"plugin and programs have different state directories", edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "state=/run/other")},
		{"the plugin is not installed", remove(debian + "spank_gresnet.so")},
		{"the plugin is for another Slurm", func(s *check.Site) {
			s.Root.(fstest.MapFS)[debian+"spank_gresnet.so"] = stamptest.Plugin("spank", 0x160508)
		}},
		{"users cannot read the plugin", func(s *check.Site) { s.Root.(fstest.MapFS)[debian+"spank_gresnet.so"].Mode = 0o600 }},
		{"`contain_spank` with the relay for PMIx", edit(conf, "GresTypes", "SlurmdParameters=contain_spank\nGresTypes")},
		{"job_container.conf has `Dirs=/run`", all(edit(conf, "GresTypes", "JobContainerType=job_container/tmpfs\nGresTypes"), put(0o644, "etc/slurm/job_container.conf", "AutoBasePath=true\nBasePath=/scratch Dirs=/tmp,/run\n"))},
		{"namespace.yaml has /run", all(edit(conf, "GresTypes", "NamespaceType=namespace/linux\nGresTypes"), put(0o644, "etc/slurm/namespace.yaml", "defaults:\n  dir_confs:\n    - path: \"/tmp\"\n    - path: \"/run\"\n"))},
		{"jobs get user namespaces", all(edit(conf, "GresTypes", "NamespaceType=namespace/linux\nGresTypes"), put(0o644, "etc/slurm/namespace.yaml", "defaults:\n  clone_ns_flags: [CLONE_NEWUSER]\n"))},
		{"gresnet.toml has an unknown key", toml("[slurm]\nsources = [\"gpu\"]\n", 0o644, 0)},
		{"users can write gresnet.toml", toml("", 0o666, 0)},
		{"gresnet.toml is a user's", toml("", 0o644, 1000)},
		{"scontrol is not there", func(s *check.Site) { _, s.ScontrolErr = source.FindScontrol("/opt/slurm-99/bin/scontrol") }},
		{"scontrol is not root's", scontrol(0o755, 1000)},
		{"the program of source `program` is not there", func(s *check.Site) { s.ProgramErr = source.CheckProgram("/usr/sbin/no-such-program") }},
		{"the program is not root's", program(0o755, 1000)},
		{"users can write the program", program(0o777, 0)},
		{"the program is not executable", program(0o644, 0)},
		{"users can write a program of `[hooks]`", func(s *check.Site) {
			s.Config.Hooks.Ready = written(t, "ready", theirs, 0o777, 0)
		}},
		{"the folder of the metrics is not there", func(s *check.Site) { s.Config.Metrics.File = "/var/lib/node_exporter/gresnet.prom" }},
		{"the folder for `[accounting]` is not there", account("lines/jobs.jsonl", func(string) error { return nil })},
		{"that folder is a user's", account("lines/jobs.jsonl", func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Chown(filepath.Dir(path), 1000, -1))
		})},
		{"users can write that folder", account("lines/jobs.jsonl", func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Chmod(filepath.Dir(path), 0o777))
		})},
		{"that folder is mounted read-only", account("lines/jobs.jsonl", mounted(syscall.MS_RDONLY, "size=4m"))},
		{"that folder's file system is full", account("lines/jobs.jsonl", mounted(0, "size=64k,nr_inodes=99"))},
		{"the file of `[accounting]` is a user's", account("jobs.jsonl", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 1000, -1))
		})},
		{"users can write that file", account("jobs.jsonl", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666))
		})},
		{"that file is a link", account("jobs.jsonl", func(path string) error { return os.Symlink("/var/log/jobs", path) })},
		{"that file is a FIFO", account("jobs.jsonl", func(path string) error { return syscall.Mkfifo(path, 0o600) })},
		{"the state directory outlives a boot", func(s *check.Site) { s.StateOn = "xfs" }},
		{"the state directory is full", func(s *check.Site) { s.Free = 1 << 20 }},
		{"a policy gives what the node does not have", func(s *check.Site) { s.Config.Policies = []config.Policy{{Gres: "nic", Count: 3}} }},
		{"an [[hca]] is not on the node", func(s *check.Site) {
			m, err := gres.Map(config.Config{HCAs: []config.HCA{{Gres: "nic", Index: 1, Match: config.Match{Key: "pci", Value: "0000:3b:00.0"}}}}, nil)
			s.Drift = errors.Join(m.Drift(), err)
		}},
		{"a PF has fewer VFs than [[hca]] says", inParts(func(pf *report.HCA, _ *config.HCA) { pf.VFs.Now = 1 })},
		{"a PF cannot have as many VFs", inParts(func(_ *report.HCA, c *config.HCA) { c.Count = 9 })},
		{"a PF cannot have VFs", inParts(func(pf *report.HCA, _ *config.HCA) { pf.VFs = nil })},
		{"a PF is not on the node", inParts(func(pf *report.HCA, _ *config.HCA) { pf.ID.PCI = "0000:01:00.0" })},
		{"VFs of a PF in switchdev mode have more than a VLAN", inParts(func(pf *report.HCA, c *config.HCA) { pf.VFs.Switchdev, c.VF.Trust = true, new(true) })},
		{"a PF of InfiniBand has VFs in VLANs", inParts(func(pf *report.HCA, c *config.HCA) {
			pf.Ports[0].LinkLayer, c.VF.VLAN = "InfiniBand", &config.VLAN{ID: 100}
		})},
		{"a PF's driver takes no 802.1ad", inParts(func(pf *report.HCA, c *config.HCA) {
			pf.Driver, c.VF.VLAN = "bnxt_re", &config.VLAN{ID: 100, Proto: config.Proto8021AD}
		})},
		{"a policy gives a P_Key that a port does not have", forPartitions(0x8002)},
		{"an HCA's driver is not loaded", func(s *check.Site) { s.Inventory.HCAs[1].Away = true }},
		{"an HCA has no uverbs", func(s *check.Site) { s.Inventory.HCAs[1].Chars = nil }},
		{"an HCA is quarantined", func(s *check.Site) { s.Inventory.HCAs[1].Claim = &report.Claim{Job: 7, Quarantined: "it hangs"} }},
		{"the kernel cannot move an HCA's driver", func(s *check.Site) { s.Inventory.HCAs[1].Driver = "efa" }},
		{"an HCA ends with its interface (siw, rxe in shared mode)", func(s *check.Site) {
			s.Inventory.Mode, s.Inventory.HCAs[1].Driver = rdma.Shared, "siw"
		}},
		{"an HCA's port is down", func(s *check.Site) {
			s.Inventory.HCAs[1].Ports = []report.Port{{Num: 1, LinkLayer: "InfiniBand", State: "DOWN"}}
		}},
		{"an HCA's interface belongs to a bond [1]", refused("ib1 belongs to bond bond0, to which gresnet cannot return it")},
		{"it has a qdisc with classes [1]", refused("ib1 has the qdisc htb 8001:, which gresnet cannot restore")},
		{"the node's default route needs it [1]", refused("the node's default route needs ib1")},
		{"it has the address of NodeAddr [1]", refused("ib1 has the address of NodeAddr 10.0.0.2")},
		{"isolation \"devices\" in exclusive mode", func(s *check.Site) { s.Config.Access.Isolation = config.IsolateDevices }},
		{"isolation \"devices\" before a reboot into exclusive mode", all(shared, func(s *check.Site) {
			s.Config.Access.Isolation, s.Config.RDMA.Mode = config.IsolateDevices, "exclusive"
		})},
		{"slots before a reboot into exclusive mode", all(shared, func(s *check.Site) {
			s.Config.HCAs = append(s.Config.HCAs, config.HCA{Part: "macvlan", Count: 2})
			s.Config.RDMA.Mode = "exclusive"
		})},
		{"the guard is required, and the kernel has none", func(s *check.Site) { unguarded(s, config.GuardRequired) }},
		{"the guard is required, and jobs have no cgroup", func(s *check.Site) {
			unguarded(s, config.GuardRequired)
			s.GuardErr = nil
			edit(conf, "GresTypes", "ProctrackType=proctrack/pgid\nGresTypes")(s)
		}},
		{"the kernel has no RDMA", func(s *check.Site) {
			s.InventoryErr = hint.With(errors.New("list RDMA devices: no RDMA subsystem in the kernel"), "is this node meant to have HCAs? then load ib_core and the HCAs' driver")
		}},
	}
}

// misconfigured is the heading of the last section of docs/errors.md.
const misconfigured = "\n## Misconfigurations that `check` finds\n"

const checksHead = `
A test makes %[1]d of them on a good node, one by one, and ` + "`check`" + ` finds each. ` + "`check --fix`" + ` makes the changes
that setup makes, with copies, and ` + "`setup --undo`" + ` restores the files: some of
%[2]s. It also restricts device nodes that users can open.
Where ` + "`setup`" + ` would have to guess, it only makes the placeholder files and enables ` + "`gresnet.service`" + `. It does not touch
files that users may have written, settings that a person has chosen, and broken hardware.
`

const checksFoot = `
### What it cannot find

- whether a switch or another firewall drops UDP port 489 between nodes, and whether other nodes reach srun in a job: run
  ` + "`srun -N2 --gres=nic:1 ping -c 1 NODE`" + `;
- whether slurmctld has the same slurm.conf, and has read it: ` + "`scontrol show node`" + `, ` + "`scontrol reconfigure`" + `;
- whether a script of the site's calls gresnet, before a job has run;
- whether a link is slow, or its subnet manager gone: NHC's ` + "`check_gresnet_ports`" + ` compares rates of ports.
`

// TestEachMisconfigurationIsFoundAndSaysWhatToDo also makes the last section of docs/errors.md (go test
// -update).
func TestEachMisconfigurationIsFoundAndSaysWhatToDo(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: it makes files of other users")
	}
	well := site()
	if n := check.Errors(well.Run()); n != 0 {
		t.Fatalf("the node where all is well has %d errors", n)
	}
	rows := misconfigurations(t)
	const least = 40
	if len(rows) < least {
		t.Errorf("%d misconfigurations", len(rows))
	}
	fixed := map[string]bool{}
	for _, r := range rows {
		s := site()
		r.change(&s)
		found := s.Run()
		if n := check.Errors(found); n != 1 {
			t.Errorf("%s: %d errors:\n%s", r.what, n, printed(t, check.Bad(found)))
		}
		for _, f := range found {
			if f.Level != check.Error {
				continue
			}
			if f.Do == "" {
				t.Errorf("%s: nothing to do about: %s", r.what, f)
			}
			if f.ID == "" {
				continue // it is a hint of more than one error
			}
			if isFixed(s) {
				fixed[f.ID] = true
			}
		}
	}
	page, err := os.ReadFile("../../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rest, _, _ := strings.Cut(string(page), misconfigured)
	var text strings.Builder
	text.WriteString(rest + misconfigured)
	fmt.Fprintf(&text, checksHead, len(rows), listed(fixed))
	text.WriteString(checksFoot)
	golden.Check(t, "../../../../docs/errors.md", text.String())
}

// listed returns ids in their order.
func listed(ids map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
}

// isFixed tells whether setup.Fix leaves nothing wrong.
func isFixed(s check.Site) bool {
	if s.ConfigErr != nil || s.InventoryErr != nil {
		return false
	}
	root := maps.Clone(s.Root.(fstest.MapFS))
	s.Root = root
	plan := setup.Fix(setup.Site{
		Root: root, Node: s.Node, Gres: []string{"nic"}, Files: []string{"/gres/nic0", "/gres/nic1"},
		GresLines: []string{"Name=nic Type=hdr File=/gres/nic0", "Name=nic Type=ndr File=/gres/nic1"},
	}, func(setup.Plan) []setup.Refusal { return nil })
	for _, e := range plan.Edits {
		root[strings.TrimPrefix(e.Path, "/")] = &fstest.MapFile{Data: e.After, Mode: e.Mode}
	}
	return check.Errors(s.Run()) == 0
}
