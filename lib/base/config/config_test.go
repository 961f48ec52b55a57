package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/test/netnstest"
)

const whole = `# the site's
[slurm]
gres   = ["nic", "hca"]   # a comment with = and [
source = [
  "gpu",    # first
  "scontrol",
]
partial  = 'first'
index    = "near"
scontrol = "/opt/slurm/bin/scontrol"
timeout  = "1500ms"
drain_reason = true

[deadline]
epilog = "1h"

[access]
host = "open"
umad = true
guard = "required"

[limits]
hca_handle = 128
hca_object = 2_000_000

[environment]
export = ["UCX_NET_DEVICES", "NCCL_IB_HCA"]

[log]
level = "warning"

[accounting]
file = "/var/lib/gresnet/jobs.jsonl"
[metrics]
file = "/var/lib/node_exporter/gresnet.prom"

[health]
port = "quarantine"
warn = { symbol_error = 100, out_of_sequence = 5000 }
quarantine = { link_downed = 0 }

[hooks]
ready = "/usr/libexec/site/ready"
leave = "/usr/libexec/site/leave"
timeout = "9s"
fault = "node"

[rdma]
mode = "exclusive"

[[hca]]
gres  = "nic"
type  = "mlx5"
index = 0
match = "pci=3B:00.0"
gpus  = [1, 0]
interface = "keep"

[[hca]]
index = 1
match = "guid=0x0002C90300ABCDEF"
node = "take"
`

func TestParse(t *testing.T) {
	want := config.Config{
		Slurm: config.Slurm{
			Gres: []string{"nic", "hca"}, Source: []string{"gpu", "scontrol"}, Partial: "first", Index: "near",
			Scontrol: "/opt/slurm/bin/scontrol", Timeout: 1500 * time.Millisecond, DrainReason: true,
		},
		Deadline:    config.Deadline{Prolog: 100 * time.Second, Epilog: time.Hour},
		Access:      config.Access{Host: "open", CM: "auto", UMAD: true, Guard: "required", Isolation: "network"},
		Limits:      config.Limits{Handles: 128, Objects: 2000000},
		Environment: config.Environment{Export: []string{"UCX_NET_DEVICES", "NCCL_IB_HCA"}},
		Log:         config.Log{Level: "warning"},
		Metrics:     config.Metrics{File: "/var/lib/node_exporter/gresnet.prom"},
		Accounting:  config.Accounting{File: "/var/lib/gresnet/jobs.jsonl"},
		Health:      config.Health{Port: "quarantine", Warn: map[string]uint64{"symbol_error": 100, "out_of_sequence": 5000}, Quarantine: map[string]uint64{"link_downed": 0}},
		Hooks:       config.Hooks{Ready: "/usr/libexec/site/ready", Leave: "/usr/libexec/site/leave", Timeout: 9 * time.Second, Fault: "node"},
		RDMA:        config.RDMA{Mode: "exclusive"},
		Uplink:      config.Uplink{Kind: "auto", Name: "uplink0"},
		Overlay:     config.Overlay{Kind: "vxlan", Port: 489, Services: []int{6817, 6818}},
		HCAs: []config.HCA{
			{Gres: "nic", Type: "mlx5", Index: 0, Match: config.Match{Key: "pci", Value: "0000:3b:00.0"}, GPUs: []int{0, 1}, Interface: config.Keep},
			{Gres: "nic", Index: 1, Match: config.Match{Key: "guid", Value: "0002:c903:00ab:cdef"}, Interface: config.Move, Take: true},
		},
	}
	got, err := config.Parse([]byte(whole), "gresnet.toml")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	got, err = config.Parse([]byte(strings.ReplaceAll(whole, "\n", "\r\n")), "gresnet.toml")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with CRLF: got %+v, %v, want %+v", got, err, want)
	}
	got, err = config.Parse([]byte(`hca = [{index = 0, match = "rdma=mlx5_0"}]`), "gresnet.toml")
	if err != nil || len(got.HCAs) != 1 || got.HCAs[0].Match.Value != "mlx5_0" {
		t.Errorf("inline: got %+v, %v", got, err)
	}
}

func TestWhatIsNotSaidIsTheDefault(t *testing.T) {
	want := config.Config{Slurm: config.Slurm{Gres: []string{"nic"}, Source: []string{"scontrol", "gpu"}, Partial: "none", Index: "slurm", Timeout: 50 * time.Second},
		Deadline: config.Deadline{Prolog: 100 * time.Second, Epilog: 100 * time.Second},
		Access:   config.Access{Host: "open", CM: "auto", Guard: "auto", Isolation: "network"},
		Log:      config.Log{Level: "info"},
		Health:   config.Health{Port: "warn"},
		Hooks:    config.Hooks{Timeout: 20 * time.Second, Fault: "job"},
		Uplink:   config.Uplink{Kind: "auto", Name: "uplink0"},
		Overlay:  config.Overlay{Kind: "vxlan", Port: 489, Services: []int{6817, 6818}}}
	for _, text := range []string{"", "# nothing\n", "[slurm]\n", "[slurm]\nscontrol = \"\"\n"} {
		got, err := config.Parse([]byte(text), "gresnet.toml")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.toml")
	got, err := config.Load(missing, false)
	if err != nil || !reflect.DeepEqual(got, config.Default()) {
		t.Errorf("missing: %+v, %v, want the default", got, err)
	}
	if _, err := config.Load(missing, true); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing though named: %v", err)
	}
	if _, err := config.Load(dir, false); err == nil || !strings.HasPrefix(err.Error(), "read configuration: ") {
		t.Errorf("a folder: %v", err)
	}
	there := filepath.Join(dir, "gresnet.toml")
	if err := os.WriteFile(there, []byte("[slurm]\npartial = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(there, false); err == nil || err.Error() != there+":2: slurm.partial: is not a text in quotes" {
		t.Errorf("a wrong one: %v", err)
	}
}

// A failover of slurmctld takes longer than most commands.
func TestScontrolHasHalfOfThePrologsTimeUnlessTheSiteSaysOtherwise(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                               50 * time.Second,
		"[deadline]\nprolog = \"10m\"\n": 5 * time.Minute,
		"[slurm]\ntimeout = \"7s\"\n[deadline]\nprolog = \"10m\"": 7 * time.Second,
	} {
		got, err := config.Parse([]byte(text), "gresnet.toml")
		if err != nil || got.Slurm.Timeout != want {
			t.Errorf("%q: %s, %v, want %s", text, got.Slurm.Timeout, err, want)
		}
	}
}

// It names programs that root runs.
func TestRootLoadsNoConfigurationThatAUserMayHaveWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: only root's files are trusted")
	}
	for name, change := range map[string]func(path string) error{
		"a user's":        func(path string) error { return os.Chown(path, 1000, -1) },
		"all write it":    func(path string) error { return os.Chmod(path, 0o666) },
		"a user's folder": func(path string) error { return os.Chown(filepath.Dir(path), 1000, -1) },
		"a user's link": func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path), os.Lchown(path, 1000, -1))
		},
	} {
		path := filepath.Join(t.TempDir(), "gresnet.toml")
		if err := errors.Join(os.WriteFile(path, nil, 0o644), change(path)); err != nil {
			t.Fatal(err)
		}
		for _, must := range []bool{false, true} {
			if got, err := config.Load(path, must); err == nil || !strings.HasPrefix(err.Error(), "read configuration: root does not trust it: "+filepath.Dir(path)) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

func TestTheShippedConfigurationIsTheDefault(t *testing.T) {
	text, err := os.ReadFile("../../../conf/gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Parse(text, "gresnet.toml")
	if want := config.Default(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestErrorsNameLineAndKey(t *testing.T) {
	const entry = "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n"
	refuses(t, []mistake{
		{"syntax", "[slurm]\ngres = [\"nic\"\npartial = 1\n", `f:3: expected a comma (',') or array terminator (']'), but got 'p'`, "correct line 3 of f"},
		{"syntax with CRLF", "[slurm]\r\ngres = \"x\r\n\r\n", `f:2: strings cannot contain newlines`, "correct line 2 of f"},
		{"key twice", "[slurm]\npartial = \"none\"\npartial = \"none\"\n", `f:3: Key 'slurm.partial' has already been defined.`, "correct line 3 of f"},
		{"unknown key", "[slurm]\n\ngress = [\"nic\"]\n", `f:3: unknown key "slurm.gress"`, `is "slurm.gres" meant?`},
		{"unknown key, far from any", "[slurm]\ncolour = 1\n", `f:2: unknown key "slurm.colour"`, "known keys are gres, source, partial, scontrol, program, timeout, drain_reason, index"},
		{"level that there is not", "[log]\nlevel = \"debug\"\n", `f:2: log.level: "debug" is not one of "warning", "notice", "info"`, "correct line 2 of f"},
		{"accounting that is not to be found", "[accounting]\nfile = \"jobs.jsonl\"\n", `f:2: accounting.file: "jobs.jsonl" is not the whole path of a file`, "name a file in a folder that root alone may write, as /var/lib/gresnet/jobs.jsonl"},
		{"accounting that is elsewhere", "[accounting]\nfile = \"/var/../jobs\"\n", `f:2: accounting.file: "/var/../jobs" is not the whole path of a file`, "name a file in a folder that root alone may write, as /var/lib/gresnet/jobs.jsonl"},
		{"metrics that are not to be found", "[metrics]\nfile = \"gresnet.prom\"\n", `f:2: metrics.file: "gresnet.prom" is not the whole path of a .prom file`, "name a file in the folder of --collector.textfile.directory; node_exporter reads those that end in .prom"},
		{"metrics that are not read", "[metrics]\nfile = \"/var/lib/gresnet.txt\"\n", `f:2: metrics.file: "/var/lib/gresnet.txt" is not the whole path of a .prom file`, "name a file in the folder of --collector.textfile.directory; node_exporter reads those that end in .prom"},
		{"key of another table", "[slurm]\nisolation = \"devices\"\n", `f:2: unknown key "slurm.isolation"`, `is "access.isolation" meant?`},
		{"key of two other tables, before any", "kind = \"auto\"\n", `f:1: unknown key "kind"`, `is "overlay.kind" or "uplink.kind" meant?`},
		{"key in capitals", "[slurm]\nGRES = [\"nic\"]\n", `f:2: unknown key "slurm.GRES"`, `is "slurm.gres" meant?`},
		{"unknown table", "# one\n[slrum]\ngres = [\"nic\"]\n", `f:2: unknown key "slrum"`, `is "slurm" meant?`},
		{"unknown dotted key", "slurm.x = 1\n", `f:1: unknown key "slurm.x"`, "known keys are gres, source, partial, scontrol, program, timeout, drain_reason, index"},
		{"unknown key of the second entry", entry + "[[hca]]\nindex = 1\nmatch = \"rdma=mlx5_1\"\n\"inter face\" = 1\n", `f:7: unknown key "hca.inter face"`, `is "hca.interface" meant?`},
		{"unknown key in an inline table", "hca = [\n  {index = 0, match = \"rdma=a\"},\n  {indx = 0, match = \"rdma=b\"},\n]\n", `f:1: hca.index: is missing`, "every [[hca]] has index and match"},
		{"table is a value", "slurm = 1\n", `f:1: slurm: is not a table, [slurm]`, "correct line 1 of f"},
		{"array of tables is a table", "[hca]\nindex = 0\n", `f:1: hca: is not an array of tables, [[hca]]`, "correct line 1 of f"},
		{"array of tables is a list", "hca = [1]\n", `f:1: hca: is not an array of tables, [[hca]]`, "correct line 1 of f"},
		{"gres is a text", "[slurm]\ngres = \"nic\"\n", `f:2: slurm.gres: is not a list of texts in quotes`, "correct line 2 of f"},
		{"gres is a list of numbers", "[slurm]\ngres = [1]\n", `f:2: slurm.gres: is not a list of texts in quotes`, "correct line 2 of f"},
		{"no gres", "[slurm]\ngres = []\n", `f:2: slurm.gres: the list is empty`, `name the GRES that means an HCA; it is "nic" unless said otherwise`},
		{"gres twice", "[slurm]\ngres = [\"nic\", \"nic\"]\n", `f:2: slurm.gres: "nic" is there twice`, "correct line 2 of f"},
		{"gres with a type", "[slurm]\ngres = [\"nic:mlx5\"]\n", `f:2: slurm.gres: "nic:mlx5" is no name of a GRES`, "use letters, digits, and _ - ."},
		{"empty name", "[slurm]\ngres = [\"\"]\n", `f:2: slurm.gres: "" is not 1 to 64 characters long`, "correct line 2 of f"},
		{"unknown source", "[slurm]\nsource = [\"gpu\", \"oracle\"]\n", `f:2: slurm.source: unknown source "oracle"`, `sources are "gpu", "node", "policy", "program", "scontrol"`},
		{"no source", "[slurm]\nsource = []\n", `f:2: slurm.source: the list is empty`, `sources are "gpu", "node", "policy", "program", "scontrol"`},
		{"partial", "[slurm]\npartial = \"all\"\n", `f:2: slurm.partial: "all" is not one of "none", "first"`, "correct line 2 of f"},
		{"index", "[slurm]\nindex = \"far\"\n", `f:2: slurm.index: "far" is not one of "slurm", "near"`, "correct line 2 of f"},
		{"scontrol without a path", "[slurm]\nscontrol = \"scontrol\"\n", `f:2: slurm.scontrol: "scontrol" is not an absolute path`, "give the whole path: slurmd gives its prolog no PATH"},
		{"a hook without a path", "[hooks]\nready = \"nccl\"\n", `f:2: hooks.ready: "nccl" is not an absolute path`, "give the whole path: slurmd gives its prolog no PATH"},
		{"a hook's timeout too long", "[hooks]\ntimeout = \"31m\"\n", `f:2: hooks.timeout: "31m" is not a time from 100ms to 30m0s`, `write a time between these two, like "20s"`},
		{"nobody's fault", "[hooks]\nfault = \"nobody\"\n", `f:2: hooks.fault: "nobody" is not one of "job", "node"`, "correct line 2 of f"},
		{"timeout is a number", "[slurm]\ntimeout = 5\n", `f:2: slurm.timeout: is not a text in quotes`, "correct line 2 of f"},
		{"timeout too short", "[slurm]\ntimeout = \"99ms\"\n", `f:2: slurm.timeout: "99ms" is not a time from 100ms to 30m0s`, `write a time between these two, like "20s"`},
		{"deadline too short", "[deadline]\nprolog = \"9s\"\n", `f:2: deadline.prolog: "9s" is not a time from 10s to 1h0m0s`, `write a time between these two, like "20s"`},
		{"timeout too long", "[slurm]\ntimeout = \"31m\"\n", `f:2: slurm.timeout: "31m" is not a time from 100ms to 30m0s`, `write a time between these two, like "20s"`},
		{"host is no word", "[access]\nhost = false\n", `f:2: access.host: is not a text in quotes`, "correct line 2 of f"},
		{"host is another word", "[access]\nhost = \"shut\"\n", `f:2: access.host: "shut" is not one of "closed", "open"`, "correct line 2 of f"},
		{"umad is a text", "[access]\numad = \"yes\"\n", `f:2: access.umad: is not true or false`, "correct line 2 of f"},
		{"rdma_cm is another word", "[access]\nrdma_cm = \"yes\"\n", `f:2: access.rdma_cm: is not true, false or "auto"`, "correct line 2 of f"},
		{"rdma_cm of a policy is a number", "[[policy]]\nrdma_cm = 1\ncount = 1\n", `f:2: policy.rdma_cm: is not true, false or "auto"`, "correct line 2 of f"},
		{"guard is another word", "[access]\nguard = \"on\"\n", `f:2: access.guard: "on" is not one of "auto", "required", "off"`, "correct line 2 of f"},
		{"access to what there is not", "[access]\nuverbs = true\n", `f:2: unknown key "access.uverbs"`, "known keys are host, rdma_cm, umad, issm, guard, isolation"},
		{"a fault that a job can cause, as a reason for quarantine", "[health]\nquarantine = { rnr_nak_retry_err = 5 }\n", `f:2: unknown key "health.quarantine.rnr_nak_retry_err"`, "known keys are link_downed, link_error_recovery, symbol_error, port_rcv_errors, local_link_integrity_errors"},
		{"a limit for a file elsewhere", "[health]\nwarn = { \"../rate\" = 5 }\n", `f:2: health.warn.../rate: that is no counter of faults`, "ls /sys/class/infiniband/*/ports/*/*counters"},
		{"a limit for what each job makes grow", "[health]\n[health.warn]\nport_xmit_data = 5\n", `f:3: health.warn.port_xmit_data: that is no counter of faults`, "ls /sys/class/infiniband/*/ports/*/*counters"},
		{"a limit below nothing", "[health]\nwarn = { symbol_error = -1 }\n", `f:2: health.warn.symbol_error: -1 is not from 0 to 4294967295`, "correct line 2 of f"},
		{"a limit of faults in words", "[health]\nwarn = { symbol_error = \"few\" }\n", `f:2: health.warn.symbol_error: is not a number`, "correct line 2 of f"},
		{"a limit of nothing", "[limits]\nhca_handle = 0\n", `f:2: limits.hca_handle: 0 is not from 1 to 2147483647`, "leave the key out for no limit"},
		{"a limit that the kernel does not take", "[limits]\nhca_object = 2147483648\n", `f:2: limits.hca_object: 2147483648 is not from 1 to 2147483647`, "leave the key out for no limit"},
		{"a limit in words", "[limits]\nhca_object = \"max\"\n", `f:2: limits.hca_object: is not a number`, "correct line 2 of f"},
		{"a variable that is not known", "[environment]\nexport = [\"LD_PRELOAD\"]\n", `f:2: environment.export: "LD_PRELOAD" is not one of them`, `there are "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES", "UCX_IB_GID_INDEX", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MELLANOX_VISIBLE_DEVICES", "NCCL_IB_PKEY", "UCX_IB_PKEY", "OMPI_MCA_btl_openib_pkey"`},
		{"a variable in small letters", "[environment]\nexport = [\"nccl_ib_hca\"]\n", `f:2: environment.export: "nccl_ib_hca" is not one of them`, `there are "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES", "UCX_IB_GID_INDEX", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MELLANOX_VISIBLE_DEVICES", "NCCL_IB_PKEY", "UCX_IB_PKEY", "OMPI_MCA_btl_openib_pkey"`},
		{"a variable twice", "[environment]\nexport = [\"NCCL_IB_HCA\", \"NCCL_IB_HCA\"]\n", `f:2: environment.export: "NCCL_IB_HCA" is there twice`, "correct line 2 of f"},
		{"no index", "[[hca]]\nmatch = \"rdma=mlx5_0\"\n", `f:1: hca.index: is missing`, "every [[hca]] has index and match"},
		{"a part that there is not", entry + "part = \"half\"\ncount = 2\n", `f:4: hca.part: "half" is not one of "vf", "macvlan", "ipvlan", "pkey", "shared"`, "correct line 4 of f"},
		{"parts without a number", "[[hca]]\nindex = 0\npart = \"vf\"\nmatch = \"pci=3b:00.0\"\n", `f:1: hca.count: is missing`, "say how many parts the HCA is to have"},
		{"no parts", "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 0\nmatch = \"pci=3b:00.0\"\n", `f:4: hca.count: 0 is no number of parts`, "leave the table out if no job is to have a part"},
		{"a number of no parts", entry + "count = 2\n", `f:4: hca.count: there is no part to count`, `add part = "vf" if jobs are to get its VFs`},
		{"slots beyond what there are indices for", entry + "part = \"macvlan\"\ncount = 257\n", `f:5: hca.count: an HCA has 256 slots at most`, "correct line 5 of f"},
		{"slots without a number", entry + "part = \"ipvlan\"\n", `f:1: hca.count: is missing`, "say how many parts the HCA is to have"},
		{"a network for a pool", entry + "part = \"shared\"\nnetwork = \"10.64.0.0/16\"\n", `f:5: hca.network: jobs get no interface that gresnet makes`, `it is for part = "macvlan", part = "ipvlan" and part = "pkey"`},
		{"a network for a whole HCA", entry + "network = \"10.64.0.0/16\"\n", `f:4: hca.network: jobs get no interface that gresnet makes`, `it is for part = "macvlan", part = "ipvlan" and part = "pkey"`},
		{"an address for a network", entry + "part = \"macvlan\"\ncount = 2\nnetwork = \"10.64.0.1/16\"\n", `f:6: hca.network: "10.64.0.1/16" is not an IPv4 network`, `write it like "10.64.0.0/16"`},
		{"an IPv6 network", entry + "part = \"macvlan\"\ncount = 2\nnetwork = \"fd00::/64\"\n", `f:6: hca.network: "fd00::/64" is not an IPv4 network`, `write it like "10.64.0.0/16"`},
		{"VFs of a PF by its name", "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 8\nmatch = \"rdma=mlx5_0\"\n", `f:5: hca.match: rdma=mlx5_0 does not say which PF has the VFs`, `write it like "pci=0000:3b:00.0": VFs are made before the PF has a name`},
		{"slots for no partition", entry + "part = \"pkey\"\ncount = 2\n", `f:1: hca.pkey: is missing`, "write it here like 0x8001, or into a [[policy]]"},
		{"a partition of a whole HCA", entry + "pkey = 0x8001\n", `f:4: hca.pkey: jobs get no interface for a partition`, `add part = "pkey" and count, or leave it out`},
		{"a partition that there is not", entry + "part = \"pkey\"\ncount = 2\npkey = 0x8000\n", `f:6: hca.pkey: 0x8000 is no P_Key`, "write it like 0x8001"},
		{"a partition beyond the last", "[[policy]]\npkey = 0x18001\n", `f:2: policy.pkey: 0x18001 is no P_Key`, "write it like 0x8001"},
		{"an index that a part has", "[[hca]]\nindex = 1\npart = \"vf\"\ncount = 8\nmatch = \"pci=3b:00.0\"\n[[hca]]\nindex = 8\nmatch = \"rdma=a\"\n", `f:7: hca.index: nic 8 is there twice, first on line 2`, "leave one of the two"},
		{"parts beyond the last index", "[[hca]]\nindex = 4090\npart = \"vf\"\ncount = 8\nmatch = \"pci=3b:00.0\"\n", `f:2: hca.index: the last part would be 4097, which is not from 0 to 4095`, "correct line 2 of f"},
		{"more GPUs than parts", "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 2\nmatch = \"pci=3b:00.0\"\ngpus = [2, 1, 0]\n", `f:6: hca.gpus: 3 are more than the parts, 2`, "name one GPU for each part at most"},
		{"no match", entry + "\n[[hca]]\nindex = 1\n", `f:5: hca.match: is missing`, "every [[hca]] has index and match"},
		{"index out of range", "[[hca]]\nindex = 4096\nmatch = \"rdma=mlx5_0\"\n", `f:2: hca.index: 4096 is not from 0 to 4095`, "correct line 2 of f"},
		{"index negative", "[[hca]]\nindex = -1\nmatch = \"rdma=mlx5_0\"\n", `f:2: hca.index: -1 is not from 0 to 4095`, "correct line 2 of f"},
		{"index is a text", "[[hca]]\nindex = \"0\"\nmatch = \"rdma=mlx5_0\"\n", `f:2: hca.index: is not a number`, "correct line 2 of f"},
		{"index twice", entry + "[[hca]]\nmatch = \"rdma=mlx5_1\"\nindex = 0\n", `f:6: hca.index: nic 0 is there twice, first on line 2`, "leave one of the two"},
		{"match twice", entry + "[[hca]]\nindex = 1\nmatch = \"rdma=mlx5_0\"\n", `f:6: hca.match: rdma=mlx5_0 is there twice, first on line 3`, "leave one of the two"},
		{"match twice in two spellings", "[[hca]]\nindex = 0\nmatch = \"pci=3b:00.0\"\n[[hca]]\nindex = 1\nmatch = \"pci=0000:3B:00.0\"\n", `f:6: hca.match: pci=0000:3b:00.0 is there twice, first on line 3`, "leave one of the two"},
		{"match of no kind", "[[hca]]\nindex = 0\nmatch = \"ib0\"\n", `f:3: hca.match: "ib0" names no HCA`, `write it like "pci=0000:3b:00.0", "guid=0002:c903:00ab:cdef" or "rdma=mlx5_0"`},
		{"gres of nobody", "[slurm]\ngres = [\"nic\"]\n" + entry + "gres = \"ib\"\n", `f:6: hca.gres: "ib" is not one of slurm.gres, "nic"`, "add it to slurm.gres, or correct it"},
		{"type with a count", entry + "type = \"mlx5:2\"\n", `f:4: hca.type: "mlx5:2" is no name of a GRES`, "use letters, digits, and _ - ."},
		{"gpus is a number", entry + "gpus = 0\n", `f:4: hca.gpus: is not a list of numbers`, "correct line 4 of f"},
		{"gpu out of range", entry + "gpus = [0, 5000]\n", `f:4: hca.gpus: 5000 is not from 0 to 4095`, "correct line 4 of f"},
		{"gpu twice", entry + "gpus = [\n  0,\n  0,\n]\n", `f:4: hca.gpus: 0 is there twice`, "correct line 4 of f"},
		{"interface", entry + "interface = true\n", `f:4: hca.interface: is not a text in quotes`, "correct line 4 of f"},
		{"node of no kind", entry + "node = \"give\"\n", `f:4: hca.node: "give" is not one of "keep", "take"`, "correct line 4 of f"},
		{"interface of no kind", entry + "interface = \"macvlan\"\n", `f:4: hca.interface: "macvlan" is not one of "move", "keep"`, "correct line 4 of f"},
		{"policy without tables", "[slurm]\nsource = [\"policy\"]\n", `f:2: slurm.source: source "policy" has nothing to read`, "add a [[policy]], or leave it out of slurm.source"},
		{"source that went", "[slurm]\nsource = [\"file\"]\n", `f:2: slurm.source: unknown source "file"`, `sources are "gpu", "node", "policy", "program", "scontrol"`},
		{"deadline that went", "[deadline]\nepilog_behind = true\n", `f:2: unknown key "deadline.epilog_behind"`, "known keys are prolog, epilog"},
		{"program without a path", "[slurm]\nsource = [\"gpu\", \"program\"]\n", `f:2: slurm.source: source "program" has nothing to read`, "set slurm.program to the program's path"},
		{"program without its path", "[slurm]\nprogram = \"hcas\"\n", `f:2: slurm.program: "hcas" is not an absolute path`, "give the whole path: slurmd gives its prolog no PATH"},
		{"policies for isolation alone, and the source that reads others", "[slurm]\nsource = [\"policy\"]\n[[policy]]\nisolation = \"devices\"\n", `f:2: slurm.source: source "policy" has nothing to read`, "add a [[policy]], or leave it out of slurm.source"},
		{"policy of another isolation", "[[policy]]\ncount = 1\nisolation = \"none\"\n", `f:3: policy.isolation: "none" is not one of "network", "devices"`, "correct line 3 of f"},
		{"policy with a type and isolation, without a number", "[[policy]]\ntype = \"mlx5\"\nisolation = \"devices\"\n", `f:1: policy.count: is missing, and so is indices`, policyHint},
		{"policy without a number", "[[policy]]\npartition = \"a\"\n", `f:1: policy.count: is missing, and so is indices`, policyHint},
		{"policy with both", "[[policy]]\ncount = 1\nindices = [0]\n", `f:3: policy.indices: count is there, too`, policyHint},
		{"policy with no index", "[[policy]]\nindices = []\n", `f:2: policy.indices: the list is empty`, policyHint},
		{"policy of a negative count", "[[policy]]\ncount = -1\n", `f:2: policy.count: -1 is not from 0 to 4095`, "correct line 2 of f"},
		{"policy for nobody", "[[policy]]\npartition = \"\"\ncount = 1\n", `f:2: policy.partition: the text is empty`, "leave the key out if the policy is for every job"},
		{"policy with a list of numbers", "[[policy]]\nqos = [1]\ncount = 1\n", `f:2: policy.qos: is not a list of texts in quotes`, "correct line 2 of f"},
		{"policy of another GRES", "[[policy]]\ngres = \"ib\"\ncount = 1\n", `f:2: policy.gres: "ib" is not one of slurm.gres, "nic"`, "add it to slurm.gres, or correct it"},
		{"policy with an unknown key", "[[policy]]\ncount = 1\npartitions = \"a\"\n", `f:3: unknown key "policy.partitions"`, `is "policy.partition" meant?`},
		{"several", "[slurm]\ntimeout = 1\nx = 1\npartial = 1\n",
			`f:2: slurm.timeout: is not a text in quotes; f:3: unknown key "slurm.x"; f:4: slurm.partial: is not a text in quotes`, "correct line 2 of f"},
		{"several in a line", "slurm = {timeout = 1, x = 1}\n", `f:1: slurm.timeout: is not a text in quotes`, "correct line 1 of f"},
		{"very many", strings.Repeat("[[hca]]\n", 10), missing(8) + "2 more lines of it are wrong", "every [[hca]] has index and match"},
		{"after texts that look like tables", "[slurm]\nscontrol = \"\"\"/x[[hca]]\\\"\\\"\\\"\n# = [\"\"\"\ngres = ['''[hca]''']\n", `f:4: slurm.gres: "[hca]" is no name of a GRES`, "use letters, digits, and _ - ."},
	})
}

// missing returns the faults of some empty [[hca]] tables.
func missing(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("f:%d: hca.index: is missing; ", i+1)
	}
	return text
}

// mistake is a text that is refused, why, and what to do about it.
type mistake struct{ name, text, err, hint string }

func refuses(t *testing.T, all []mistake) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			got, err := config.Parse([]byte(c.text), "f")
			if err == nil {
				t.Fatalf("parsed as %+v, want error %q", got, c.err)
			}
			if err.Error() != c.err {
				t.Errorf("error %q, want %q", err, c.err)
			}
			if got := hint.Of(err); got != c.hint || hint.ID(err) == "" {
				t.Errorf("hint %q of %q, want %q", got, hint.ID(err), c.hint)
			}
		})
	}
}

const (
	policyHint = "give count or indices, not both; count = 0 gives nothing"
)

func TestPolicies(t *testing.T) {
	c, err := config.Parse([]byte(`
[slurm]
gres = ["nic", "ib"]
source = ["policy"]
[[policy]]
partition = "debug"
count = 0
[[policy]]
partition = ["train", "long"]
account = ["a"]
qos = "high"
reservation = "r"
constraint = ["hdr", "ndr"]
gres = "ib"
type = "mlx5"
indices = [3, 0]
`), "f")
	want := []config.Policy{
		{Partition: []string{"debug"}, Gres: "nic"},
		{
			Partition: []string{"train", "long"}, Account: []string{"a"}, QOS: []string{"high"},
			Reservation: []string{"r"}, Constraint: []string{"hdr", "ndr"},
			Gres: "ib", Type: "mlx5", Indices: []int{0, 3},
		},
	}
	if err != nil || !reflect.DeepEqual(c.Policies, want) {
		t.Errorf("got %+v, %v,\nwant %+v", c.Policies, err, want)
	}
}

func TestRDMACMIsGivenWithheldOrAuto(t *testing.T) {
	for value, want := range map[string]string{"true": config.CMYes, "false": config.CMNo, `"auto"`: config.CMAuto} {
		c, err := config.Parse([]byte("[access]\nrdma_cm = "+value+"\n[[policy]]\npartition = \"storage\"\nrdma_cm = "+value+"\n"), "f")
		if err != nil || c.Access.CM != want || c.Policies[0].CM != want || !c.Policies[0].Silent {
			t.Errorf("%s: got %+v, %v", value, c, err)
		}
	}
}

func TestAPolicyMayDecideIsolationAlone(t *testing.T) {
	c, err := config.Parse([]byte("[access]\nisolation = \"devices\"\n[[policy]]\npartition = \"train\"\nisolation = \"network\"\n[[policy]]\ncount = 1\nisolation = \"devices\"\n"), "f")
	want := []config.Policy{
		{Partition: []string{"train"}, Gres: "nic", Silent: true, Isolation: config.IsolateNetwork},
		{Gres: "nic", Count: 1, Isolation: config.IsolateDevices},
	}
	if err != nil || !reflect.DeepEqual(c.Policies, want) || c.Access.Isolation != config.IsolateDevices {
		t.Errorf("got %+v and %q, %v,\nwant %+v", c.Policies, c.Access.Isolation, err, want)
	}
}

func TestParseMatch(t *testing.T) {
	hca := node.HCA{ID: node.ID{GUID: "0002:c903:00ab:cdef", PCI: "0000:3b:00.0"}, Name: "mlx5_0"}
	other := node.HCA{ID: node.ID{GUID: "0002:c903:00ab:cdf0", PCI: "0000:3b:00.1"}, Name: "mlx5_1"}
	for text, want := range map[string]string{
		"pci=0000:3b:00.0":         "pci=0000:3b:00.0",
		"pci=3B:00.0":              "pci=0000:3b:00.0",
		"guid=0002:c903:00ab:cdef": "guid=0002:c903:00ab:cdef",
		"guid=0002C90300ABCDEF":    "guid=0002:c903:00ab:cdef",
		"guid=0x0002c90300abcdef":  "guid=0002:c903:00ab:cdef",
		"rdma=mlx5_0":              "rdma=mlx5_0",
	} {
		m, err := config.ParseMatch(text)
		if err != nil || m.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, m, err, want)
		}
		if !m.Matches(hca) || m.Matches(other) {
			t.Errorf("%q matches %s: %t, %s: %t", text, hca.Name, m.Matches(hca), other.Name, m.Matches(other))
		}
	}
	if m, err := config.ParseMatch("pci=100000:01:1f.7"); err != nil || m.Value != "100000:01:1f.7" {
		t.Errorf("a domain of VMD: %q, %v", m, err)
	}
	for _, text := range []string{
		"", "mlx5_0", "=", "pci=", "pci=3b", "pci=3b:00", "pci=3b:00.8", "pci=3b:20.0", "pci=00000:3b:00.0", "pci=x0000:3b:00.0",
		"pci=123456789:3b:00.0", "pci=0000:3b:00.0 ", "pci=0000:0000:3b:00.0", "guid=", "guid=0", "guid=0002:c903:00ab:cdeg",
		"guid=0002:c903:00ab", "guid=0x0002:c903:00ab:cdef", "rdma=", "rdma=..", "rdma=a/b", "rdma=a b", "rdma=" + strings.Repeat("a", 64), "RDMA=mlx5_0", "mac=0",
	} {
		if m, err := config.ParseMatch(text); err == nil {
			t.Errorf("%q is %q, want an error", text, m)
		}
	}
}
