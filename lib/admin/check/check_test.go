package check_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/admin/check"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/state"
	"gresnet/test/stamptest"
)

// site returns a node of two HCAs where all is well.
func site() check.Site {
	cfg := config.Default()
	cfg.Slurm.Source, cfg.Access.Host, cfg.Uplink.Kind = []string{config.Scontrol}, config.Closed, config.UplinkNone
	return check.Site{
		Root: fstest.MapFS{
			"proc/cmdline":              file("BOOT_IMAGE=/vmlinuz root=/dev/vda"),
			"proc/sys/kernel/osrelease": file("6.12.48+deb13-amd64\n"),
			"etc/modprobe.d/rdma.conf":  file("# exclusive\noptions ib_core netns_mode=0\n"),
			"etc/slurm/slurm.conf": file("Prolog=/usr/sbin/gresnet-prolog\nEpilog=/usr/sbin/gresnet-epilog\nPrologFlags=Contain,X11\nGresTypes=gpu,nic\n" +
				"NodeName=DEFAULT Gres=gpu:8,nic:hdr:1(S:0),nic:ndr:1\nNodeName=node[1-9] CPUs=4\nPropagateResourceLimitsExcept=MEMLOCK\n"),
			"etc/slurm/cgroup.conf":              file("ConstrainDevices=yes\n"),
			"etc/slurm/plugstack.conf":           file("include plugstack.conf.d/*.conf\n"),
			"etc/slurm/plugstack.conf.d/10":      file("optional other.so\n"),
			"etc/slurm/plugstack.conf.d/20.conf": file("required spank_gresnet.so # ours\n"),
			"etc/slurm/gres.conf": file("Name=gpu File=/dev/nvidia[0-7]\nNodeName=other[1-4] Name=nic Count=8\n" +
				"NodeName=node[1-9] Name=nic Type=hdr File=/gres/nic0\nNodeName=node[1-9] Name=nic Type=ndr File=/gres/nic[1]\n"),
			"gres/nic0": file(""), "gres/nic1": file(""),
			"dev/nvidia0": file(""), "dev/nvidia1": file(""), "dev/nvidia2": file(""), "dev/nvidia3": file(""),
			"dev/nvidia4": file(""), "dev/nvidia5": file(""), "dev/nvidia6": file(""), "dev/nvidia7": file(""),
			"usr/sbin/gresnet-prolog": program("\x7fELF\x00"), "usr/sbin/gresnet-epilog": program("\x7fELF\x00"),
			"usr/lib/x86_64-linux-gnu/slurm-wlm/auth_munge.so":    stamptest.Plugin("auth/munge", 0x180b05),
			"usr/lib/x86_64-linux-gnu/slurm-wlm/spank_gresnet.so": stamptest.Plugin("spank", 0x180b00),
		},
		Config: cfg,
		Node:   "node1",
		State:  "/run/gresnet",
		Free:   1 << 30,
		Inventory: report.Scan{Mode: rdma.Exclusive, HCAs: []report.HCA{
			hca(0, "ib0"), hca(1, "ib1"),
		}},
	}
}

// unguarded is a node in shared mode whose kernel has no BPF.
func unguarded(s *check.Site, want string) {
	shared(s)
	delete(s.Root.(fstest.MapFS), "etc/modprobe.d/rdma.conf")
	s.GuardErr, s.Config.Access.Guard = noGuard, want
}

var noGuard = hint.With(errors.New("no BPF"), "mount it")

const runParts = "#!/bin/bash\nrun-parts --exit-on-error /etc/slurm/prolog.d/ || exit 1\n"

// ofSite has Slurm run a script of the site's, and the last prolog have left a record.
func ofSite(text string, last *state.Record) func(*check.Site) {
	return func(s *check.Site) {
		wrapped(text)(s)
		s.Records.Prolog = last
	}
}

// failedEpilog has Slurm run an epilog of the site's, gresnet's by that have failed, and a job have begun
// since or not.
func failedEpilog(by state.Caller, since bool) func(*check.Site) {
	return func(s *check.Site) {
		edit("etc/slurm/slurm.conf", "/usr/sbin/gresnet-epilog", "/etc/slurm/epilog.sh")(s)
		s.Root.(fstest.MapFS)["etc/slurm/epilog.sh"] = program("#!/bin/sh\n/usr/sbin/gresnet-epilog; logger done\n")
		at := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
		s.Records.Failed = &state.Record{Exit: 2, Job: 7, Caller: by, Why: "return mlx5_1: it hangs [GN214]", At: at}
		s.Records.Epilog = &state.Record{Job: 8, Caller: by, At: at.Add(time.Hour)}
		s.Records.Prolog = &state.Record{Job: 8, Caller: state.Caller{Slurmd: true}, At: at.Add(-time.Minute)}
		if since {
			s.Records.Prolog.At = at.Add(time.Minute)
		}
	}
}

const debian = "usr/lib/x86_64-linux-gnu/slurm-wlm/"

// divided makes GPUs that are cut into parts, besides.
func divided(also func(*check.Site)) func(*check.Site) {
	return func(s *check.Site) {
		also(s)
		s.Root.(fstest.MapFS)["proc/driver/nvidia/capabilities/gpu0/mig/gi7/ci0/access"] = file("")
	}
}

// gpus makes GPUs say what a job gets. The kernel has some of them.
func gpus(have int, configured []int) func(*check.Site) {
	return func(s *check.Site) {
		s.Config.Slurm.Source = []string{config.GPU}
		edit("etc/slurm/slurm.conf", "gpu:8,nic:hdr:1(S:0),nic:ndr:1", "gpu:8")(s)
		s.Config.HCAs = []config.HCA{{GPUs: configured}}
		s.Inventory.GPUs = make([]report.GPU, have)
		for i := range s.Inventory.HCAs {
			s.Inventory.HCAs[i].Serves = []int{i}
		}
		for i := range have {
			inOrder(s, i, i)
		}
	}
}

// inOrder makes the GPU that is the n-th by its PCI address have a minor number.
func inOrder(s *check.Site, n, minor int) {
	root, pci := s.Root.(fstest.MapFS), fmt.Sprintf("0000:%02x:00.0", n)
	root["sys/devices/pci0000:00/"+pci+"/numa_node"] = file("0\n")
	root["sys/bus/pci/devices/"+pci] = &fstest.MapFile{Data: []byte("../../../devices/pci0000:00/" + pci), Mode: fs.ModeSymlink}
	root["proc/driver/nvidia/gpus/"+pci+"/information"] = file(fmt.Sprintf("Device Minor: \t %d\n", minor))
}

// unnamed has gres.conf name other files than GPUs' device nodes.
func unnamed(s *check.Site) { edit("etc/slurm/gres.conf", "/dev/nvidia[0-7]", "/gres/nic[0-1]")(s) }

// slurmdMayLock makes slurmd run with a soft and a hard limit of locked memory.
func slurmdMayLock(limits string) func(*check.Site) {
	return slurmdHas("Max locked memory         " + limits)
}

// slurmdHas makes slurmd run with a soft and a hard limit.
func slurmdHas(limit string) func(*check.Site) {
	return func(s *check.Site) {
		root := s.Root.(fstest.MapFS)
		root["proc/7/comm"], root["proc/7/limits"] = file("slurmstepd\n"), file("Max locked memory         1                    1                    bytes     \n")
		root["proc/77/comm"] = file("slurmd\n")
		root["proc/77/status"] = file("Name:\tslurmd\nUid:\t0\t0\t0\t0\n")
		root["proc/77/exe"] = &fstest.MapFile{Data: []byte("/usr/sbin/slurmd (deleted)"), Mode: fs.ModeSymlink} // upgraded
		root["proc/77/limits"] = file("Limit                     Soft Limit           Hard Limit           Units     \n" +
			"Max processes             1                    1                    processes \n" +
			limit + "                 units     \n")
	}
}

const scope = "sys/fs/cgroup/system.slice/slurmstepd.scope/cgroup.subtree_control"

// nodes gives the device nodes of the HCAs modes.
func nodes(modes ...fs.FileMode) func(*check.Site) {
	return func(s *check.Site) {
		for i, mode := range modes {
			s.Root.(fstest.MapFS)[fmt.Sprintf("dev/infiniband/uverbs%d", i)] = &fstest.MapFile{Mode: fs.ModeCharDevice | mode}
		}
	}
}

func program(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o755} }

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func hca(n int, name string) report.HCA {
	h := report.HCA{
		Gres: "nic", Index: new(n), Name: fmt.Sprintf("mlx5_%d", n), Driver: "mlx5",
		ID:    node.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", n)},
		Chars: []report.Char{{Kind: "uverbs", Name: fmt.Sprintf("uverbs%d", n)}},
		Ports: []report.Port{{Num: 1, Interface: name}},
	}
	if n < 2 {
		h.Type = []string{"hdr", "ndr"}[n]
	}
	return h
}

const well = `ok       configuration: it can be read
ok       state: /run/gresnet has 1024 MiB left
ok       mode: exclusive, after a reboot too (/etc/modprobe.d/rdma.conf)
ok       mapping: 2 HCAs
ok       overlay: jobs have the node's own address; UDP port 489 must be open between nodes
ok       plugin: /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_gresnet.so is for Slurm 24.11, which is installed
ok       gres.conf: 2 nic
ok       slurm.conf: Prolog is gresnet's
ok       slurm.conf: Epilog is gresnet's
ok       slurm.conf: PrologFlags=Contain,X11
ok       slurm.conf: GresTypes has nic
ok       plugstack.conf: required spank_gresnet.so
`

func printed(t *testing.T, findings []check.Finding) string {
	t.Helper()
	var out strings.Builder
	findings = slices.Clone(findings)
	for i := range findings {
		findings[i].ID = "" // lib/base/hint holds the ids
	}
	if err := check.Print(&out, findings); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// about returns the lines about something.
func about(t *testing.T, what string, findings []check.Finding) string {
	t.Helper()
	return printed(t, slices.DeleteFunc(findings, func(f check.Finding) bool { return f.About != what }))
}

func TestASiteWhereAllIsWell(t *testing.T) {
	found := site().Run()
	if got := printed(t, found); got != well {
		t.Errorf("got\n%s\nwant\n%s", got, well)
	}
	if n := check.Errors(found); n != 0 {
		t.Errorf("%d errors", n)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	set := func(pairs ...string) func(*check.Site) {
		return func(s *check.Site) {
			for i := 0; i < len(pairs); i += 2 {
				s.Root.(fstest.MapFS)[pairs[i]] = file(pairs[i+1])
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*check.Site)
		want   string // the line; the only one that is not ok
	}{
		"no space": {func(s *check.Site) { s.Free = 1 << 20 },
			"error    state: /run/gresnet has 1024 KiB left; make room: a prolog that cannot write fails, and drains the node"},
		"shared after a reboot": {remove("etc/modprobe.d/rdma.conf"),
			`warning  mode: exclusive now, shared after a reboot (the kernel's default); gresnet setup --mode exclusive, or cp /usr/share/gresnet/modprobe.conf /etc/modprobe.d/gresnet.conf and renew the initramfs`},
		"a PF that is whole and has VFs": {func(s *check.Site) {
			s.Inventory.HCAs[0].ID.PCI = "0000:01:00.0"
			s.Inventory.HCAs[0].VFs = &report.VFs{Now: 2, Total: 8}
			vf := hca(9, "mlx5_9")
			vf.Gres, vf.ID = "", node.ID{PCI: s.Inventory.HCAs[0].ID.PCI, VF: "0"}
			s.Inventory.HCAs = append(s.Inventory.HCAs, vf)
		}, "warning  mapping: jobs get mlx5_0 as a whole, though it has VFs (2); list its VFs in [[hca]] in its place, or do without: echo 0 >/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"},
		"limits for a counter that a port has, and for one that none has": {func(s *check.Site) {
			put(0o644, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "0\n", "sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "0\n")(s)
			s.Config.Health.Warn = map[string]uint64{"symbol_error": 1, "out_of_sequence": 1, "symbol_errors": 1}
		}, "warning  health: no port counts symbol_errors; ls /sys/class/infiniband/*/ports/*/*counters"},
		"a PF in parts": {inParts(func(*report.HCA, *config.HCA) {}), ""},
		"a PF in parts that is down": {inParts(func(pf *report.HCA, _ *config.HCA) { pf.Ports[0].State = "DOWN" }),
			"warning  parts: no port of mlx5_2 is active: its VFs have no link; bring its interface up, and see whether its cable is in"},
		"a PF in parts, with all that Ethernet has": {inParts(func(pf *report.HCA, c *config.HCA) {
			pf.Ports[0].LinkLayer, c.VF.VLAN = "Ethernet", &config.VLAN{ID: 100, Proto: config.Proto8021AD}
		}), ""},
		"not what the configuration wants": {func(s *check.Site) { s.Config.RDMA.Mode = "shared" },
			"warning  mode: it is exclusive, though gresnet.toml wants shared; reboot; if it was not set at boot, journalctl -u gresnet.service says why"},
		"nor will it be": {func(s *check.Site) {
			s.Config.RDMA.Mode = "shared"
			set("run/systemd/system/x", "")(s)
		}, "warning  mode: it is exclusive, though gresnet.toml wants shared; systemctl enable gresnet.service, which sets it at boot, and reboot"},
		"what the configuration wants, until a reboot": {func(s *check.Site) {
			s.Config.RDMA.Mode = "exclusive"
			set("run/systemd/system/x", "", "etc/modprobe.d/rdma.conf", "")(s)
		}, "warning  mode: exclusive now, shared after a reboot (the kernel's default), though gresnet.toml wants exclusive; systemctl enable gresnet.service, which sets it at boot"},
		"what the configuration wants": {func(s *check.Site) {
			s.Config.RDMA.Mode = "exclusive"
			set("run/systemd/system/x", "", "etc/modprobe.d/rdma.conf", "", "etc/systemd/system/multi-user.target.wants/gresnet.service", "")(s)
		}, ""},
		"device nodes that users can open": {nodes(0o666, 0o600),
			`warning  device nodes: users can open uverbs0 without a job that was given it, though host is "closed"; gresnet close closes them now, as gresnet.service does at boot`},
		"a node of hfi1 that users can open": {func(s *check.Site) {
			nodes(0o600, 0o600)(s)
			root, h := s.Root.(fstest.MapFS), &s.Inventory.HCAs[0]
			root["dev/infiniband"] = &fstest.MapFile{Mode: fs.ModeDir | 0o700}
			root["dev/hfi1_0"] = &fstest.MapFile{Mode: fs.ModeCharDevice | 0o666}
			h.Chars = append(h.Chars, report.Char{Kind: "hfi1", Name: "hfi1_0"})
		}, `warning  device nodes: users can open hfi1_0 without a job that was given it, though host is "closed"; gresnet close closes them now, as gresnet.service does at boot`},
		"device nodes that are closed": {nodes(0o600, 0o600), ""},
		"device nodes that are open as the site wants": {func(s *check.Site) {
			nodes(0o666, 0o666)(s)
			s.Config.Access.Host = config.Open
		}, ""},
		"limits without the controller": {func(s *check.Site) {
			s.Config.Limits.Handles = 7
			set("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n")(s)
		}, "warning  limits: the kernel has no cgroup controller rdma: jobs run without limits; boot with cgroup v2, and without cgroup_disable=rdma"},
		"limits that jobs' cgroups do not have": {func(s *check.Site) {
			s.Config.Limits.Handles = 7
			set("sys/fs/cgroup/cgroup.controllers", "cpuset rdma\n", scope, "cpuset cpu\n")(s)
		}, "warning  limits: the cgroup controller rdma is off in /sys/fs/cgroup/system.slice/slurmstepd.scope: jobs run without limits; set EnableControllers=yes and EnableExtraControllers=rdma in cgroup.conf (Slurm 25.05), or turn it on by hand: gresnet.toml(5), [limits]"},
		"limits that jobs' cgroups have": {func(s *check.Site) {
			s.Config.Limits.Objects = 7
			set("sys/fs/cgroup/cgroup.controllers", "cpuset rdma\n", scope, "cpuset cpu rdma\n")(s)
		}, ""},
		"limits before slurmd runs": {func(s *check.Site) {
			s.Config.Limits.Objects = 7
			set("sys/fs/cgroup/cgroup.controllers", "cpuset rdma\n")(s)
		}, ""},
		"no limits, and no controller": {set("sys/fs/cgroup/cgroup.controllers", "cpuset\n", scope, "\n"), ""},
		"shared by the command line": {set("proc/cmdline", "quiet ib_core.netns_mode=1"),
			`warning  mode: exclusive now, shared after a reboot (kernel command line); gresnet setup --mode exclusive, or cp /usr/share/gresnet/modprobe.conf /etc/modprobe.d/gresnet.conf and renew the initramfs`},
		"a hidden file of modprobe's does not count": {set("usr/lib/modprobe.d/rdma.conf", "options ib_core netns_mode=1\n"), ""},
		"nor does one whose name comes earlier":      {set("usr/lib/modprobe.d/aa.conf", "options ib_core netns_mode=1\n"), ""},
		"a later one does": {set("usr/lib/modprobe.d/zz.conf", "options ib_core netns_mode=1\n"),
			`warning  mode: exclusive now, shared after a reboot (/usr/lib/modprobe.d/zz.conf); gresnet setup --mode exclusive, or cp /usr/share/gresnet/modprobe.conf /etc/modprobe.d/gresnet.conf and renew the initramfs`},
		"exclusive after a reboot": {func(s *check.Site) { s.Inventory.Mode = rdma.Shared },
			"warning  mode: shared now, exclusive after a reboot (/etc/modprobe.d/rdma.conf); reboot, if exclusive is meant"},
		"not exclusive, though it was booted with it": {func(s *check.Site) {
			s.Inventory.Mode = rdma.Shared
			s.Root.(fstest.MapFS)["etc/modprobe.d/rdma.conf"].ModTime = time.Unix(1700000000, 0)
			set("proc/stat", "cpu 1 2 3\nbtime 1700000001\n")(s)
		}, "warning  mode: shared now, though /etc/modprobe.d/rdma.conf was there at boot and says exclusive; if the initramfs loads ib_core, renew it (update-initramfs -u, dracut -f), and reboot"},
		"the kernel's own ways to write it": {set("etc/modprobe.d/rdma.conf", "options ib-core netns-mode=N\n"), ""},
		"off, too":                          {set("proc/cmdline", "ib-core.netns_mode=Off", "etc/modprobe.d/rdma.conf", ""), ""},
		"drift": {func(s *check.Site) {
			s.Drift = hint.With(errors.New("map nic 7: the node has no such HCA"), "see whether it is plugged in")
		},
			"error    mapping: map nic 7: the node has no such HCA; see whether it is plugged in"},
		"a policy by account, of which users name any": {func(s *check.Site) {
			s.Config.Policies = []config.Policy{{Account: []string{"physics"}, Gres: "nic"}, {Gres: "nic"}}
		}, "warning  slurm.conf: without AccountingStorageEnforce users can name any account, and policies depend on it; set AccountingStorageEnforce=associations"},
		"a policy by account, of which users name their own": {func(s *check.Site) {
			s.Config.Policies = []config.Policy{{Account: []string{"physics"}, Gres: "nic"}}
			edit("etc/slurm/slurm.conf", "GresTypes", "AccountingStorageEnforce=Limits,qos\nGresTypes")(s)
		}, ""},
		"a policy of what the node lacks": {func(s *check.Site) {
			s.Config.Policies = []config.Policy{{Gres: "nic"}, {Gres: "nic", Count: 2}, {Gres: "nic", Indices: []int{1, 2}}}
		}, "error    policy 3: nic:2(IDX:1-2), which source policy says the job has: this node has no nic 2; it has nic 0 (hdr), nic 1 (ndr); correct it: jobs that it fits are refused here"},
		"an HCA that is in no entry": {func(s *check.Site) {
			extra := hca(2, "ib2")
			extra.Gres = ""
			s.Inventory.HCAs = append(s.Inventory.HCAs, extra)
		}, "warning  mapping: mlx5_2 (0002:c903:00ab:0002) is in no [[hca]]; add an [[hca]] for it, if jobs are to have it (gresnet scan --toml)"},
		"no guard of device nodes": {func(s *check.Site) { unguarded(s, config.GuardAuto) },
			"warning  guard: jobs of one user can open each other's HCAs: no BPF; mount it"},
		"no guard, and it must be": {func(s *check.Site) { unguarded(s, config.GuardRequired) }, "error    guard: no job gets an HCA: no BPF; mount it"},
		"no guard is wanted": {func(s *check.Site) { unguarded(s, config.GuardOff) },
			"warning  guard: off: jobs of one user can open each other's HCAs; say guard = \"auto\" in [access], or use exclusive mode"},
		"a guard":                        {func(s *check.Site) { unguarded(s, config.GuardAuto); s.GuardErr = nil }, ""},
		"no guard, and exclusive mode":   {func(s *check.Site) { s.GuardErr = noGuard }, ""},
		"a cgroup.conf that Slurm takes": {set("etc/slurm/cgroup.conf", "CgroupPlugin=autodetect\nConstrainDevices=yes\n"), ""},
		"a key in cgroup.conf that the installed Slurm does not take": {set("etc/slurm/cgroup.conf", "ConstrainDevices=yes\nMaxKmemPercent=100\n"),
			"error    cgroup.conf: /etc/slurm/cgroup.conf:2: Slurm 24.11 has no MaxKmemPercent: slurmd refuses the file; correct the line"},
		"a value in cgroup.conf that Slurm does not take": {set("etc/slurm/cgroup.conf", "ConstrainDevices=maybe\n"),
			"error    cgroup.conf: /etc/slurm/cgroup.conf:1: ConstrainDevices has another value than yes or no: slurmd refuses the file; correct the line"},
		"a cgroup.conf that lets jobs open all GPUs": {set("etc/slurm/cgroup.conf", "ConstrainDevices=down\n"),
			"warning  cgroup.conf: /etc/slurm/cgroup.conf:1 says ConstrainDevices=down: jobs can open GPUs that they were not given; say yes, if users' job scripts ask for all GPUs that they use"},
		"a cgroup.conf that says nothing of devices": {set("etc/slurm/cgroup.conf", "ConstrainCores=yes\n"),
			"warning  cgroup.conf: it does not say ConstrainDevices: jobs can open GPUs that they were not given; gresnet setup, or add ConstrainDevices=yes"},
		"a cgroup.conf that does not read": {set("etc/slurm/cgroup.conf", "ConstrainDevices\n"),
			`error    cgroup.conf: /etc/slurm/cgroup.conf:1: "ConstrainDevices" is not KEY=VALUE: slurmd refuses the file; correct the line`},
		"jobs without cgroups": {func(s *check.Site) {
			unguarded(s, config.GuardAuto)
			s.GuardErr = nil
			edit("etc/slurm/slurm.conf", "GresTypes", "ProctrackType=proctrack/linuxproc\nGresTypes")(s)
		}, "warning  guard: ProctrackType is proctrack/linuxproc: jobs of one user can open each other's HCAs, since they have no cgroup; set ProctrackType=proctrack/cgroup"},
		"jobs without cgroups, though they must have some": {func(s *check.Site) {
			unguarded(s, config.GuardRequired)
			s.GuardErr = nil
			edit("etc/slurm/slurm.conf", "GresTypes", "ProctrackType=proctrack/pgid\nGresTypes")(s)
		}, "error    guard: ProctrackType is proctrack/pgid: steps with HCAs fail, since their jobs have no cgroup; set ProctrackType=proctrack/cgroup"},
		"jobs with cgroups": {func(s *check.Site) {
			unguarded(s, config.GuardRequired)
			s.GuardErr = nil
			edit("etc/slurm/slurm.conf", "GresTypes", "ProctrackType=proctrack/cgroup\nGresTypes")(s)
		}, ""},
		"an HCA that is gone": {func(s *check.Site) { s.Inventory.HCAs[1].Away = true },
			"error    HCA mlx5_1: it is in the mapping and not on the node; see whether its driver is loaded, and whether it is in another network namespace"},
		"an HCA that is leased": {func(s *check.Site) {
			s.Inventory.HCAs[1].Away, s.Inventory.HCAs[1].Claim, s.Inventory.HCAs[1].Chars = true, &report.Claim{Job: 7}, nil
		}, ""},
		"an HCA in quarantine": {func(s *check.Site) { s.Inventory.HCAs[1].Claim = &report.Claim{Job: 7, Quarantined: "it hangs"} },
			"error    HCA mlx5_1: it is quarantined: it hangs; fix the cause, then gresnet release mlx5_1"},
		"no uverbs": {func(s *check.Site) { s.Inventory.HCAs[0].Chars = nil },
			"error    HCA mlx5_0: it has no uverbs device, without which no program can use it; load ib_uverbs"},
		"a driver that cannot be moved": {func(s *check.Site) { s.Inventory.HCAs[0].Driver = "efa" },
			"error    HCA mlx5_0: driver efa cannot be moved on this kernel; use shared mode, or leave it out of the mapping"},
		"one that cannot yet": {func(s *check.Site) {
			s.Inventory.HCAs[0].Driver = "bnxt_re"
			set("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n")(s)
		}, "error    HCA mlx5_0: driver bnxt_re cannot be moved on this kernel; use shared mode, or leave it out of the mapping"},
		"one that can by now": {func(s *check.Site) { s.Inventory.HCAs[0].Driver = "bnxt_re" }, ""},
		"one that goes with its interface": {func(s *check.Site) {
			s.Inventory.HCAs[0].Driver, s.Inventory.Mode = "rxe", rdma.Shared
			remove("etc/modprobe.d/rdma.conf")(s)
		}, `error    HCA mlx5_0: driver rxe ends the RDMA device when its interface is moved; set interface = "keep" in its [[hca]]`},
		"one whose interface is kept": {func(s *check.Site) {
			s.Inventory.HCAs[0].Driver, s.Inventory.HCAs[0].Keep, s.Inventory.Mode = "rxe", true, rdma.Shared
			remove("etc/modprobe.d/rdma.conf")(s)
		}, ""},
		"NetworkManager has an interface": {set("run/NetworkManager/devices/7", "[device]\nmanaged=true\n", "sys/class/net/ib1/ifindex", "7\n"),
			"warning  NetworkManager: it manages ib1; put unmanaged-devices=interface-name:ib1 under [keyfile] into a file in /etc/NetworkManager/conf.d"},
		"networkd has an interface": {set("run/systemd/netif/links/7", "ADMIN_STATE=configured\n", "sys/class/net/ib1/ifindex", "7\n"),
			"warning  systemd-networkd: it manages ib1; put Unmanaged=yes under [Link] into the .network file of ib1"},
		"networkd has none":       {set("run/systemd/netif/links/7", "ADMIN_STATE=unmanaged\n", "sys/class/net/ib1/ifindex", "7\n"), ""},
		"NetworkManager has none": {set("run/NetworkManager/devices/7", "[device]\nmanaged=false\n", "sys/class/net/ib1/ifindex", "7\n"), ""},
		"ifupdown has an interface": {func(s *check.Site) { s.Bounds = []inspect.BoundUnit{{Interface: "ib1", Unit: "ifup@ib1.service"}} },
			"warning  ifupdown: ifup@ib1.service ends when ib1 goes to a job; write auto in place of allow-hotplug for ib1 in /etc/network/interfaces, and reboot"},
		"a service is bound to an interface": {func(s *check.Site) { s.Bounds = []inspect.BoundUnit{{Interface: "ib1", Unit: "site.service"}} },
			"warning  systemd: it stops site.service when ib1 goes to a job; take BindsTo= out of it, or leave the HCA out of [[hca]]"},
		"systemd does not answer": {func(s *check.Site) { s.BoundErr = errors.New("ask systemctl: no answer") },
			"warning  systemd: what it stops when an interface goes to a job is not known: ask systemctl: no answer; see systemctl status"},
		"no slurm.conf": {remove("etc/slurm/slurm.conf"),
			"warning  slurm.conf: it is in none of /etc/slurm/slurm.conf, /run/slurm/conf/slurm.conf, /usr/local/etc/slurm.conf, /opt/slurm/etc/slurm.conf: Slurm's configuration is not checked; set SLURM_CONF to its path"},
		"no epilog": {edit("etc/slurm/slurm.conf", "Epilog=/usr/sbin/gresnet-epilog\n", ""),
			"error    slurm.conf: it has no Epilog; gresnet setup, or have all nodes have the script of /usr/share/gresnet/epilog.d, and set Epilog to it"},
		"a script that runs the prolog": {func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "/usr/sbin/gresnet-prolog", "/etc/slurm/prolog.d/*")(s)
			s.Root.(fstest.MapFS)["etc/slurm/prolog.d/10-gresnet"] = program("#!/bin/sh\nexec /usr/sbin/gresnet-prolog\n")
			s.Root.(fstest.MapFS)["etc/slurm/prolog.d/20"] = program("#!/bin/sh\n")
			set("etc/slurm/prolog.d/.hidden", "")(s)
		}, ""},
		"several prologs": {func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "Prolog=", "Prolog=prolog.sh\nProlog=")(s)
			s.Root.(fstest.MapFS)["etc/slurm/prolog.sh"] = program("#!/bin/sh\n")
		}, ""},
		"a script before a job has run": {ofSite(runParts, nil),
			"warning  slurm.conf: nobody can tell whether Prolog=/etc/slurm/prolog.sh calls gresnet-prolog and ends with its exit code: no job has run since the boot, or since a file changed; run a job, then check again: srun --gres=nic:1 true; if no script calls it, put it into a folder with a script that does nothing else: Prolog=/etc/slurm/prolog.d/*, and install -D -t /etc/slurm/prolog.d /usr/share/gresnet/prolog.d/*-gresnet"},
		"a script that names the program, before a job has run": {ofSite("#!/bin/sh\necho /usr/sbin/gresnet-prolog\n", nil),
			"warning  slurm.conf: nobody can tell whether Prolog=/etc/slurm/prolog.sh calls gresnet-prolog and ends with its exit code: no job has run since the boot, or since a file changed; run a job, then check again: srun --gres=nic:1 true"},
		"a script by which slurmd has come to the program": {ofSite(runParts, &state.Record{Caller: state.Caller{Slurmd: true, Script: "/etc/slurm/prolog.sh"}, At: time.Unix(10, 0)}), ""},
		"a script, and a person has called the program": {ofSite("#!/bin/sh\n: gresnet-prolog\n", &state.Record{Caller: state.Caller{Other: "bash"}, At: time.Unix(10, 0)}),
			"warning  slurm.conf: nobody can tell whether Prolog=/etc/slurm/prolog.sh calls gresnet-prolog and ends with its exit code: no job has run since the boot, or since a file changed; run a job, then check again: srun --gres=nic:1 true"},
		"a script that swallowed, and works since": {func(s *check.Site) {
			ofSite(runParts, &state.Record{Caller: state.Caller{Slurmd: true}, At: time.Now()})(s)
			missed(s)
			s.Records.Missed.At = time.Unix(10, 0)
		}, ""},
		"an epilog that failed, a script, and a job since": {failedEpilog(state.Caller{Slurmd: true, Script: "/etc/slurm/epilog.sh"}, true),
			"warning  slurm.conf: gresnet-epilog of job 7 ended with 2 at 2026-11-25 08:00:00 (return mlx5_1: it hangs [GN214]), and job 8 has begun since: slurmd drains a node whose Epilog fails, so /etc/slurm/epilog.sh kept that exit code to itself, or somebody has resumed the node; let Epilog end with gresnet-epilog's exit code; if it does, rm /run/gresnet/runs/failed"},
		"an epilog that failed, a script, and no job since": {failedEpilog(state.Caller{Slurmd: true, Script: "/etc/slurm/epilog.sh"}, false), ""},
		"an epilog that failed, and slurmd heard of":        {failedEpilog(state.Caller{Slurmd: true}, true), ""},
		"an epilog that failed before its script was fixed": {func(s *check.Site) {
			failedEpilog(state.Caller{Slurmd: true, Script: "/etc/slurm/epilog.sh"}, true)(s)
			s.Root.(fstest.MapFS)["etc/slurm/epilog.sh"].ModTime = s.Records.Failed.At.Add(time.Second)
		}, ""},
		"no flag": {edit("etc/slurm/slurm.conf", "Contain,X11", "Serial"),
			"error    slurm.conf: PrologFlags has neither Contain nor Alloc: a step may start before its job has HCAs; gresnet setup, or set PrologFlags=Contain"},
		"slurmd's own deadline comes first": {edit("etc/slurm/slurm.conf", "GresTypes", "PrologEpilogTimeout=104\nEpilogTimeout=300\nGresTypes"),
			"warning  slurm.conf: PrologEpilogTimeout is 1m44s: slurmd kills the prolog, which may take 1m40s, and 5s to tell of it; raise it, or lower deadline.prolog in gresnet.toml"},
		"slurmd's own deadline comes later": {edit("etc/slurm/slurm.conf", "GresTypes", "PrologEpilogTimeout=105\nGresTypes"), ""},
		"a user's slurmd": {func(s *check.Site) {
			slurmdMayLock("8388608              8388608")(s)
			s.Root.(fstest.MapFS)["proc/77/status"] = file("Name:\tslurmd\nUid:\t1000\t0\t0\t0\n")
		}, ""},
		"root's program of another name": {func(s *check.Site) {
			slurmdMayLock("8388608              8388608")(s)
			s.Root.(fstest.MapFS)["proc/77/exe"] = &fstest.MapFile{Data: []byte("/home/ada/bin/slurm"), Mode: fs.ModeSymlink}
		}, ""},
		"a slurmd that may lock little": {slurmdMayLock("8388608              8388608"),
			"warning  memlock: its tasks may lock 8388608 bytes of memory: RDMA programs fail to register what they need; gresnet setup, or set LimitMEMLOCK=infinity in its unit; then restart it"},
		"a slurmd of Debian's that may lock little": {func(s *check.Site) {
			slurmdMayLock("8388608              8388608")(s)
			s.Root.(fstest.MapFS)["proc/77/exe"] = &fstest.MapFile{Data: []byte("/usr/sbin/slurmd-wlm"), Mode: fs.ModeSymlink}
		}, "warning  memlock: its tasks may lock 8388608 bytes of memory: RDMA programs fail to register what they need; gresnet setup, or set LimitMEMLOCK=infinity in its unit; then restart it"},
		"a slurmd that may lock all": {slurmdMayLock("8388608              unlimited"), ""},
		"limits of whoever submits": {edit("etc/slurm/slurm.conf", "PropagateResourceLimitsExcept=MEMLOCK", "#"),
			"warning  memlock: slurm.conf has tasks lock as much memory as whoever submits their job: RDMA programs fail if that is 8 MiB, as systemd has it; gresnet setup, or set PropagateResourceLimitsExcept=MEMLOCK"},
		"no GRES type": {edit("etc/slurm/slurm.conf", "gpu,nic", "gpu"),
			"error    slurm.conf: GresTypes lacks nic; gresnet setup, or add it; or correct slurm.gres in gresnet.toml"},
		"a health check": {edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/healthy\nHealthCheckInterval=300\nGresTypes"),
			"warning  health check: /usr/sbin/healthy runs while jobs do, and sees no HCA that is in one; have it leave out the HCAs that /run/gresnet/in-use lists, or count HCAs as check_gresnet_hcas of /usr/share/gresnet/nhc-gresnet.nhc does"},
		"a health check that is off by default": {edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/healthy\nGresTypes"), ""},
		"a health check that is off":            {edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/healthy\nHealthCheckInterval=0\nGresTypes"), ""},
		"a health check that asks who has the HCAs": {all(edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/healthy\nHealthCheckInterval=300\nGresTypes"),
			put(0o755, "usr/sbin/healthy", "#!/bin/sh\ngrep -q mlx5_0 /run/gresnet/in-use\n")), ""},
		"a health check in each cycle": {edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/healthy\nHealthCheckInterval=0x3c\nHealthCheckNodeState=CYCLE\nGresTypes"),
			"warning  health check: /usr/sbin/healthy runs while jobs do, and sees no HCA that is in one; have it leave out the HCAs that /run/gresnet/in-use lists, or count HCAs as check_gresnet_hcas of /usr/share/gresnet/nhc-gresnet.nhc does"},
		"a health check of idle nodes": {edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/nhc\nHealthCheckInterval=300\nHealthCheckNodeState=IDLE,CYCLE\nGresTypes"), ""},
		"a health check of busy nodes": {edit("etc/slurm/slurm.conf", "GresTypes", "HealthCheckProgram=/usr/sbin/nhc\nHealthCheckInterval=300\nHealthCheckNodeState=CYCLE,mixed\nGresTypes"),
			"warning  health check: /usr/sbin/nhc runs while jobs do, and sees no HCA that is in one; have it leave out the HCAs that /run/gresnet/in-use lists, or count HCAs as check_gresnet_hcas of /usr/share/gresnet/nhc-gresnet.nhc does"},
		"no plugin": {edit("etc/slurm/plugstack.conf.d/20.conf", "spank_gresnet.so", "x.so"),
			"error    plugstack.conf: /etc/slurm/plugstack.conf does not have gresnet's plugin: tasks would run in the node's network; gresnet setup, or include /etc/gresnet/plugstack.conf in it, a copy of /usr/share/gresnet/plugstack.conf"},
		"an optional plugin": {edit("etc/slurm/plugstack.conf.d/20.conf", "required", "optional"),
			"error    plugstack.conf: spank_gresnet.so is optional: where it fails, tasks run in the node's network; write required in place of optional"},
		"an argument that it does not know": {edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "batch pmix=on"),
			`error    plugstack.conf: the plugin does not know "pmix=on": no task starts; leave it out, or say one of steps, batch=auto, batch=single, batch, all, pmix=relay, pmix=off, notice=on, notice=off, allow=none, state=DIR`},
		"a state directory that is no path": {edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "state=run"),
			`error    plugstack.conf: the plugin does not know "state=run": no task starts; leave it out, or say one of steps, batch=auto, batch=single, batch, all, pmix=relay, pmix=off, notice=on, notice=off, allow=none, state=DIR`},
		"all arguments that it knows": {edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "batch=auto pmix=relay notice=on allow=none state=/run/gresnet/"), ""},
		"another state directory": {edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "state=/run/other"),
			"error    plugstack.conf: the plugin looks for leases in /run/other, and they are in /run/gresnet: tasks would run in the node's network; give both the same directory"},
		"another state directory of the programs": {func(s *check.Site) { s.State = "/run/other" },
			"error    plugstack.conf: the plugin looks for leases in /run/gresnet, and they are in /run/other: tasks would run in the node's network; give both the same directory"},
		"PMIx that is kept from its server": {func(s *check.Site) {
			edit("etc/slurm/plugstack.conf.d/20.conf", "# ours", "pmix=off")(s)
			edit("etc/slurm/slurm.conf", "GresTypes", "MpiDefault=pmix_v4\nGresTypes")(s)
		}, "warning  plugstack.conf: MpiDefault=pmix_v4, and required spank_gresnet.so pmix=off keeps PMIx from reaching its server; leave pmix=off out"},
		"PMIx that cannot be relayed": {edit("etc/slurm/slurm.conf", "GresTypes", "SlurmdParameters=config_overrides,contain_spank\nGresTypes"),
			"error    plugstack.conf: with contain_spank in SlurmdParameters, PMIx cannot be relayed; add pmix=off to the line, or take contain_spank out of SlurmdParameters"},
		"user namespaces": {func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "GresTypes", "NamespaceType=namespace/linux\nGresTypes")(s)
			set("etc/slurm/namespace.yaml", "defaults:\n  clone_ns_flags:\n    - \"CLONE_NEWUSER\"\n")(s)
		}, "error    namespace.yaml: jobs get user namespaces, and their tasks fail; take CLONE_NEWUSER out of clone_ns_flags"},
		"user namespaces on some nodes": {func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "GresTypes", "NamespaceType=namespace/linux\nGresTypes")(s)
			set("etc/slurm/namespace.yaml", "node_confs:\n  - options:\n      clone_ns_flags: [CLONE_NEWPID, clone_newuser]\n")(s)
		}, "warning  namespace.yaml: some nodes' jobs get user namespaces, and their tasks fail; take CLONE_NEWUSER out of clone_ns_flags"},
		"other namespaces": {func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "GresTypes", "NamespaceType=namespace/linux\nGresTypes")(s)
			set("etc/slurm/namespace.yaml", "defaults:\n  clone_ns_flags: [CLONE_NEWPID] # CLONE_NEWUSER\n")(s)
		}, ""},
		"user namespaces that Slurm does not make": {set("etc/slurm/namespace.yaml", "clone_ns_flags: [CLONE_NEWUSER]\n"), ""},
		"pyxis before it":                          {edit("etc/slurm/plugstack.conf.d/20.conf", "required", "required /opt/spank_pyxis.so\nrequired"), ""},
		"a line that Slurm does not heed": {edit("etc/slurm/plugstack.conf.d/20.conf", "required", "Required"),
			"error    plugstack.conf: /etc/slurm/plugstack.conf does not have gresnet's plugin: tasks would run in the node's network; gresnet setup, or include /etc/gresnet/plugstack.conf in it, a copy of /usr/share/gresnet/plugstack.conf"},
		"a plugin that is not there": {edit("etc/slurm/plugstack.conf.d/20.conf", "spank", "/opt/spank"),
			"error    plugin: /opt/spank_gresnet.so is not there; install the gresnet-spank for this version of Slurm"},
		"a plugin that is nowhere": {remove(debian + "spank_gresnet.so"),
			"error    plugin: spank_gresnet.so is not in /usr/lib/x86_64-linux-gnu/slurm-wlm; install the gresnet-spank for this version of Slurm, or set PluginDir in slurm.conf"},
		"a plugin that is not in PluginDir": {edit("etc/slurm/slurm.conf", "GresTypes", "PluginDir=/opt/plugins:/opt/more\nGresTypes"),
			"error    plugin: spank_gresnet.so is not in PluginDir /opt/plugins, /opt/more; install the gresnet-spank for this version of Slurm"},
		"a plugin for another Slurm": {func(s *check.Site) {
			s.Root.(fstest.MapFS)[debian+"spank_gresnet.so"] = stamptest.Plugin("spank", 0x160508)
		},
			"error    plugin: spank_gresnet.so is for Slurm 22.05, and Slurm 24.11 is installed: no step starts; install the gresnet-spank for this version of Slurm"},
		"one for this Slurm further on": {func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "GresTypes", "PluginDir=/"+debian[:len(debian)-1]+":/opt/plugins\nGresTypes")(s)
			s.Root.(fstest.MapFS)["opt/plugins/spank_gresnet.so"] = s.Root.(fstest.MapFS)[debian+"spank_gresnet.so"]
			s.Root.(fstest.MapFS)[debian+"spank_gresnet.so"] = stamptest.Plugin("spank", 0x160508)
		}, ""},
		"a plugin that is none": {set(debian+"spank_gresnet.so", "#!/bin/sh\n"),
			"error    plugin: /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_gresnet.so: it is no Slurm plugin; install the gresnet-spank for this version of Slurm"},
		"a plugin that users cannot load": {func(s *check.Site) { s.Root.(fstest.MapFS)[debian+"spank_gresnet.so"].Mode = 0o600 },
			"error    plugin: /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_gresnet.so is not readable by users; chmod o+r it: srun and sbatch load it, too"},
		"no Slurm that is found": {remove(debian + "auth_munge.so"),
			"warning  plugin: spank_gresnet.so was not looked for: Slurm's folder of plugins was not found; set PluginDir in slurm.conf"},
		"a plugin that can be held against nothing": {func(s *check.Site) {
			edit("etc/slurm/plugstack.conf.d/20.conf", "spank", "/opt/spank")(s)
			s.Root.(fstest.MapFS)["opt/spank_gresnet.so"] = stamptest.Plugin("spank", 0x180b00)
			remove(debian + "auth_munge.so")(s)
		}, "warning  plugin: /opt/spank_gresnet.so is for Slurm 24.11; the installed Slurm was not found; see that the two are of one version, or set PluginDir in slurm.conf"},
		"no plugstack.conf": {remove("etc/slurm/plugstack.conf"),
			"error    plugstack.conf: read /etc/slurm/plugstack.conf: open etc/slurm/plugstack.conf: file does not exist; gresnet setup, or include /etc/gresnet/plugstack.conf in it, a copy of /usr/share/gresnet/plugstack.conf"},
		"gres.conf with fewer": {edit("etc/slurm/gres.conf", "NodeName=node[1-9] Name=nic Type=ndr File=/gres/nic[1]\n", ""),
			"error    gres.conf: it has 1 nic for this node, the mapping has 2; take the lines from gresnet scan --gres-conf"},
		"gres.conf with another type": {edit("etc/slurm/gres.conf", "Type=hdr", "Type=ndr"),
			`error    gres.conf: nic 0 is of type "ndr", in the mapping of type "hdr"; take the lines from gresnet scan --gres-conf`},
		"gres.conf with a file of some": {edit("etc/slurm/gres.conf", "File=/gres/nic[1]", "Count=1"),
			"error    gres.conf: /etc/slurm/gres.conf:4: it has files, and another line of the GRES none, or the other way round"},
		"gres.conf with a type of some": {edit("etc/slurm/gres.conf", "Type=hdr ", ""),
			"error    gres.conf: /etc/slurm/gres.conf:4: it has a type, and another line of the GRES none, or the other way round"},
		"gres.conf without files": {edit("etc/slurm/gres.conf", "File=/gres/nic0\nNodeName=node[1-9] Name=nic Type=ndr File=/gres/nic[1]", "Count=1\nNodeName=node[1-9] Name=nic Type=ndr Count=1"),
			"warning  gres.conf: nic has Count= and no File=: Slurm tells no indices, and each job gets what is free; take the lines from gresnet scan --gres-conf"},
		"gres.conf with device nodes": {edit("etc/slurm/gres.conf", "/gres/nic0", "/dev/infiniband/uverbs0"),
			"error    gres.conf: nic 0 is /dev/infiniband/uverbs0, whose number changes when the HCA is moved; take the lines from gresnet scan --gres-conf"},
		"a node that Slurm promises more of": {edit("etc/slurm/slurm.conf", "(S:0),nic:ndr:1", "(S:0),nic:ndr:7"),
			"error    slurm.conf: NodeName of node1 has 8 nic, gres.conf 2: slurmctld drains the node; put Gres=nic:2 into the node's line"},
		"a node that Slurm promises less of": {edit("etc/slurm/slurm.conf", "CPUs=4", "CPUs=4 Gres=nic:1"),
			"warning  slurm.conf: NodeName of node1 has 1 nic, gres.conf 2: the rest is never used; put Gres=nic:2 into the node's line"},
		"a node that Slurm promises none of": {edit("etc/slurm/slurm.conf", "CPUs=4", "CPUs=4 Gres=gpu:8"),
			"error    slurm.conf: NodeName of node1 has no nic: no job can ask for it; put Gres=nic:2 into the node's line"},
		"types that Slurm has in another order": {edit("etc/slurm/slurm.conf", "nic:hdr:1(S:0),nic:ndr:1", "nic:ndr:1,nic:hdr:1(S:0)"),
			"error    slurm.conf: NodeName of node1 has the types of nic in another order than gres.conf: Slurm numbers them by it, and jobs fail their prologs; put them into this order: nic:hdr, nic:ndr"},
		"a type of some": {edit("etc/slurm/slurm.conf", "nic:ndr:1", "nic:1"),
			"error    slurm.conf: NodeName of node1 has nic with a type and without: slurmd refuses that; give each a type, or none"},
		"types in turns": {func(s *check.Site) {
			h := hca(2, "ib2")
			h.Type = "hdr"
			s.Inventory.HCAs = append(s.Inventory.HCAs, h)
			edit("etc/slurm/gres.conf", "File=/gres/nic[1]\n", "File=/gres/nic[1]\nNodeName=node1 Name=nic Type=hdr File=/gres/nic0\n")(s)
			edit("etc/slurm/gres.conf", "Type=hdr File=/gres/nic0\nNodeName=node[1-9] Name=nic Type=ndr", "Type=hdr File=/gres/nic1\nNodeName=node[1-9] Name=nic Type=ndr")(s)
			edit("etc/slurm/gres.conf", "Type=ndr File=/gres/nic[1]", "Type=ndr File=/gres/nic2")(s)
			edit("etc/slurm/slurm.conf", "nic:hdr:1(S:0)", "nic:hdr:2(S:0)")(s)
			s.Root.(fstest.MapFS)["gres/nic2"] = file("")
		}, "error    gres.conf: number nic for gres.conf: mlx5_1, of type ndr, is between mlx5_0 and mlx5_2, of type hdr: slurmd numbers those of one type one after the other; put the [[hca]] tables of one type one after the other"},
		"types of which Slurm has no order":   {edit("etc/slurm/slurm.conf", "nic:hdr:1(S:0),nic:ndr:1", "nic:2"), ""},
		"a count that is not understood":      {edit("etc/slurm/slurm.conf", "CPUs=4", "CPUs=4 Gres=nic:2K"), ""},
		"a node that says itself what it has": {edit("etc/slurm/slurm.conf", "node[1-9] CPUs=4", "other CPUs=4 Gres=nic:9"), ""},
		"GPUs as the kernel has them":         {gpus(8, nil), ""},
		"an HCA that serves no GPU": {all(gpus(8, nil), func(s *check.Site) { s.Inventory.HCAs[1].Serves = nil }),
			"warning  mapping: no GPU is served by mlx5_1: each has nearer HCAs; leave it out of [[hca]], or say gpus = there"},
		"an HCA that serves no GPU, and that jobs can ask for": {all(gpus(8, nil), func(s *check.Site) {
			edit("etc/slurm/slurm.conf", "gpu:8", "gpu:8,nic:hdr:1,nic:ndr:1")(s)
			s.Inventory.HCAs[1].Serves, s.Config.Slurm.Source = nil, []string{config.GPU, config.Scontrol}
		}), ""},
		"an HCA that serves a GPU by another part": {all(gpus(8, nil), func(s *check.Site) {
			s.Inventory.HCAs[1].Serves, s.Inventory.HCAs[0].ID.PCI, s.Inventory.HCAs[1].ID.PCI = nil, "0000:3b:00.0", "0000:3b:00.0"
		}), ""},
		"GPUs that jobs share": {func(s *check.Site) {
			gpus(8, nil)(s)
			edit("etc/slurm/slurm.conf", "GresTypes=gpu,nic", "GresTypes=gpu,shard,nic")(s)
		}, "warning  slurm.conf: GresTypes has shard: the first of the jobs that share a GPU gets its HCA, and the others are refused; have jobs of shard run where no HCA serves their GPUs, or leave gpu out of slurm.source"},
		"an HCA that a prolog refuses": {func(s *check.Site) {
			s.Refusals = []inspect.Refusal{{Entry: gres.Entry{HCA: node.HCA{Name: "mlx5_1"}, Gres: "nic", Index: 1}, Err: hint.With(errors.New("ib1 has the address of NodeAddr 10.0.0.2"), "leave it out")}}
		}, "error    mlx5_1: a job that gets nic 1 fails its prolog: ib1 has the address of NodeAddr 10.0.0.2; leave it out"},
		"an address that is not known": {func(s *check.Site) { s.Unknown = []error{errors.New("look up SlurmctldHost ctl: no such host")} },
			"warning  guard: no job gets an interface that may lead there: look up SlurmctldHost ctl: no such host; write an address in slurm.conf, like NodeAddr=10.0.0.2 or SlurmctldHost=ctl(10.0.0.1); see SLURM_CONF"},
		"no scontrol": {func(s *check.Site) {
			s.ScontrolErr = hint.With(errors.New("find scontrol: there is none"), "set slurm.scontrol")
		},
			"error    slurm.source: find scontrol: there is none; set slurm.scontrol"},
		"GPUs that the kernel does not show": {func(s *check.Site) { s.Config.Slurm.Source = []string{config.Scontrol, config.GPU} },
			"error    gres.conf: it has 8 gpu for this node, the kernel has 0: a job with GPU 0 is refused; correct it, or say in the [[hca]] entries which GPUs each serves (gpus = )"},
		"GPUs that the kernel does not show and the configuration deals out": {func(s *check.Site) {
			s.Config.Slurm.Source, s.Config.HCAs = []string{config.Scontrol, config.GPU}, []config.HCA{{GPUs: []int{0}}}
		}, ""},
		"no GPUs, and nothing else to go by": {func(s *check.Site) {
			s.Config.Slurm.Source = []string{config.GPU}
			edit("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-7]\n", "")(s)
			edit("etc/slurm/slurm.conf", "Gres=gpu:8,", "Gres=")(s)
		},
			`warning  slurm.source: the node has no GPU, and jobs without GPUs get no HCA; add "scontrol", or another source that knows such jobs` + "\n" +
				`warning  slurm.source: NodeName of node1 has nic, and no source gives what a job asks for: a job that asks for nic and gets no HCA is refused; write source = ["scontrol", "gpu"], or take the GRES out of slurm.conf and gres.conf`},
		"fewer GPUs than gres.conf has": {gpus(4, nil),
			"error    gres.conf: it has 8 gpu for this node, the kernel has 4: a job with GPU 4 is refused; correct it, or say in the [[hca]] entries which GPUs each serves (gpus = )"},
		"GPUs of VFIO's that are not found": {all(gpus(8, nil), set("dev/vfio/20", "", "dev/vfio/21", ""), edit("etc/slurm/gres.conf", "/dev/nvidia[0-7]", "/dev/vfio/[20-21]")),
			"error    gres.conf: number the GPUs by gres.conf: /dev/vfio/20 is of no GPU that can be found; say in the [[hca]] entries which GPUs, by Slurm's numbers, each serves (gpus = )"},
		"GPUs in another order": {func(s *check.Site) {
			gpus(8, nil)(s)
			edit("etc/slurm/gres.conf", "/dev/nvidia[0-7]", "/dev/nvidia[1,0,2-7]")(s)
		}, ""},
		"GPUs that gres.conf does not name": {all(gpus(8, nil), unnamed),
			"warning  gres.conf: it has no GPU's device node: they are taken to be in the order of their PCI addresses; name the GPUs' device nodes in File=, or set AutoDetect="},
		"GPUs that gres.conf does not name and whose minors have another order": {all(gpus(8, nil), unnamed, func(s *check.Site) { inOrder(s, 0, 1); inOrder(s, 1, 0) }),
			"error    gres.conf: it has no GPU's device node: they are taken to be in the order of their PCI addresses, and their device nodes are in another; name the GPUs' device nodes in File=, or set AutoDetect="},
		"GPUs that jobs get by AutoDetect": {all(gpus(8, nil), edit("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-7]", "AutoDetect=nvml"), func(s *check.Site) { inOrder(s, 0, 1); inOrder(s, 1, 0) }), ""},
		"GPUs that jobs get by AutoDetect as it happens": {all(gpus(8, nil), edit("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-7]", "AutoDetect=full"), func(s *check.Site) { inOrder(s, 0, 1); inOrder(s, 1, 0) }),
			"error    gres.conf: number the GPUs by gres.conf: AutoDetect=full has them by their PCI addresses or by their device nodes, which differ; say in the [[hca]] entries which GPUs, by Slurm's numbers, each serves (gpus = )"},
		"GPUs that the configuration deals out": {gpus(4, []int{0}), ""},
		"divided GPUs": {divided(all(gpus(8, nil), unnamed)),
			"error    gres.conf: number the GPUs by gres.conf: GPU 0000:00:00.0 is divided, and no line has its parts; say in the [[hca]] entries which GPUs, by Slurm's numbers, each serves (gpus = )"},
		"divided GPUs that gres.conf names":             {divided(gpus(8, nil)), ""},
		"divided GPUs that the configuration deals out": {divided(gpus(8, []int{0})), ""},
		"a placeholder that is not there": {remove("gres/nic1"),
			"error    gres.conf: /gres/nic1 is not there, and slurmd does not start without it; correct the line, or make the file: gresnet scan --gres-files"},
	} {
		t.Run(name, func(t *testing.T) {
			s := site()
			c.change(&s)
			found := s.Run()
			var bad []string
			for _, f := range found {
				if f.Level != check.OK {
					f.ID = "" // lib/base/hint holds the ids
					bad = append(bad, f.String())
				}
			}
			if got := strings.Join(bad, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if want := strings.Count(c.want, "error    "); check.Errors(found) != want {
				t.Errorf("%d errors, want %d", check.Errors(found), want)
			}
		})
	}
}

func TestAKernelWithoutRDMAAndABadConfigurationAreErrors(t *testing.T) {
	s := site()
	s.InventoryErr = errors.New("no RDMA subsystem in the kernel")
	s.ConfigErr = hint.With(errors.New("gresnet.toml:3: unknown key"), "correct line 3")
	got := printed(t, s.Run())
	for _, want := range []string{
		"error    configuration: gresnet.toml:3: unknown key; correct line 3\n",
		"error    kernel: no RDMA subsystem in the kernel\n",
		"ok       plugstack.conf: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestNHCsChecksOfWhatJobsTakeAwayAreNamedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		conf   string
		change func(*check.Site)
		line   int // that is named; 0: none
	}{
		"rate":                             {"# HCAs\n* || check_hw_ib 400", nil, 2},
		"rate, beside an HCA that is kept": {"* || check_hw_ib 400\n* || check_hw_ib 100 mlx5_0:1", func(s *check.Site) { s.Inventory.HCAs[1].Gres = "" }, 1},
		"rate, in shared mode":             {"* || check_hw_ib 100", shared, 0},
		"an interface":                     {"* || check_hw_eth ib1", nil, 1},
		"an interface, in shared mode":     {"* || check_hw_eth ib1", shared, 1},
		"an interface that is kept":        {"* || check_hw_eth ib1", func(s *check.Site) { s.Inventory.HCAs[1].Keep = true }, 0},
		"another interface":                {"* || check_hw_eth eno1", nil, 0},
		"the site's own check":             {"{node[1-9]} || check_site_ib", nil, 1},
		"a command":                        {`node1 || check_cmd_output -m "/Active/" /usr/sbin/ibstat`, nil, 1},
		"another command":                  {"* || check_cmd_status -r 0 true", nil, 0},
		"gresnet's own":                    {"* || check_gresnet_hcas 8\n* || check_gresnet_ports 400", nil, 0},
		"a comment":                        {"# * || check_hw_ib 100", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := site()
			root := s.Root.(fstest.MapFS)
			root["etc/nhc/nhc.conf"] = file(c.conf + "\n")
			root["etc/slurm/slurm.conf"].Data = append(root["etc/slurm/slurm.conf"].Data, "HealthCheckProgram=/usr/sbin/nhc\nHealthCheckInterval=300\n"...)
			if c.change != nil {
				c.change(&s)
			}
			want := "ok       health check: /etc/nhc/nhc.conf looks for nothing that jobs take away\n"
			if c.line > 0 {
				want = fmt.Sprintf("warning  health check: /etc/nhc/nhc.conf:%d looks for an HCA or an interface that a job may have: NHC would take it for broken; have check_gresnet_hcas in its place (/usr/share/gresnet/nhc-gresnet.nhc), or set HealthCheckNodeState=IDLE\n", c.line)
			}
			if got := about(t, "health check", s.Run()); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func shared(s *check.Site) { s.Inventory.Mode = rdma.Shared }

func TestWhereJobsStayInTheNodesNetworkNothingIsSaidOfTheirOwn(t *testing.T) {
	s := site()
	shared(&s)
	s.OverlayErr = errors.New("there is no address")
	s.Config.Access.Isolation = config.IsolateDevices
	text := printed(t, s.Run())
	if !strings.Contains(text, "ok       isolation: \"devices\"") || strings.Contains(text, "overlay") {
		t.Error(text)
	}
}

// What check takes for an argument, the plugin must, and the other way round.
func TestThePluginKnowsTheArgumentsThatCheckDoes(t *testing.T) {
	text, err := os.ReadFile("../../../spank/arguments.c")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\t\{"([^"]+)", [A-Z]+, `).FindAllStringSubmatch(string(text), -1)
	var known []string
	for _, m := range found {
		known = append(known, m[1])
	}
	if want := check.Arguments(); !slices.Equal(known, want) {
		t.Errorf("the plugin knows %q, check %q", known, want)
	}
}

func TestCheckSaysWhatSlurmsOwnIndicesCost(t *testing.T) {
	for index, want := range map[string]bool{config.IndexSlurm: true, config.IndexNear: false} {
		s := site()
		s.Inventory.GPUs, s.Config.Slurm.Index = make([]report.GPU, 8), index
		said := slices.ContainsFunc(s.Run(), func(f check.Finding) bool { return f.Level == check.OK && f.About == "slurm.index" })
		if said != want {
			t.Errorf("index = %q: it is said: %v", index, said)
		}
	}
}

func TestEachMistakeOfTheConfigurationIsALineOfItsOwn(t *testing.T) {
	s := site()
	_, s.ConfigErr = config.Parse([]byte("[slurm]\ngress = [\"nic\"]\npartial = \"all\"\n[overlay]\nport = 5000\n"), "gresnet.toml")
	want := `error    configuration: gresnet.toml:2: unknown key "slurm.gress"; is "slurm.gres" meant?
error    configuration: gresnet.toml:3: slurm.partial: "all" is not one of "none", "first"; correct line 3 of gresnet.toml
error    configuration: gresnet.toml:5: overlay.port: 5000 is not from 1 to 1023; take one that root alone can bind: a user who has it would keep jobs from their networks
`
	if got := about(t, "configuration", s.Run()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
