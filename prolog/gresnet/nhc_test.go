package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/proc"
)

// nhc is a node as NHC meets it: a /sys, and a gresnet that says what
// the real one would.
type nhc struct {
	dir    string
	status report.Status
}

// hca adds an HCA to the status.
func (n *nhc) hca(name string, claim *report.Claim, moving bool) {
	id := node.ID{GUID: "0002:c903:00ab:" + fmt.Sprintf("%04d", len(n.status.HCAs)), PCI: "0000:3b:00.0"}
	n.status.HCAs = append(n.status.HCAs, report.HCA{
		ID: id, Name: name, Ports: []report.Port{{Num: 1, LinkLayer: "InfiniBand", Interface: "ib0"}},
		Gres: "nic", Index: new(len(n.status.HCAs)), Claim: claim, Moving: moving, State: inspect.StateOf(report.HCA{Gres: "nic", Claim: claim}),
	})
}

// port puts a port of an HCA into /sys.
func (n *nhc) port(t *testing.T, hca, state, rate string) {
	t.Helper()
	dir := filepath.Join(n.dir, "class/infiniband", hca, "ports/1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"state": state, "rate": rate} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// check runs a check as nhc does, whose shell expands no patterns of files (nhc, nhcmain_init_env), and returns what it dies of.
func (n *nhc) check(t *testing.T, line string) string {
	t.Helper()
	var status bytes.Buffer
	if err := report.Print(&status, &n.status); err != nil {
		t.Fatal(err)
	}
	stub := "#!/bin/sh\n[ \"$*\" = 'status --json' ] || exit 9\ncat <<'E'\n" + status.String() + "E\n"
	if n.status.HCAs == nil {
		stub = "#!/bin/sh\necho 'gresnet: read the node table: it is torn' >&2\nexit 1\n"
	}
	if err := os.WriteFile(filepath.Join(n.dir, "gresnet"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	script := `set -f; die() { echo "$2"; }; . ../../conf/nhc-gresnet.nhc; ` + line + ` && echo well`
	cmd := exec.Command("bash", "-u", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+n.dir+":"+os.Getenv("PATH"), "GRESNET_SYS="+n.dir)
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out))
}

func TestNHCCountsHCAsThatAreWithJobs(t *testing.T) {
	n := &nhc{dir: t.TempDir()}
	n.hca("mlx5_0", nil, false)
	n.hca("mlx5_1", &report.Claim{Job: 4711}, false) // away, as in exclusive mode
	n.hca("mlx5_2", &report.Claim{Job: 4711}, true)  // and here, as in shared mode
	n.port(t, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)")
	n.port(t, "mlx5_2", "1: DOWN", "10 Gb/sec (4X SDR)")
	for line, want := range map[string]string{
		"check_gresnet_hcas 3":     "well",
		"check_gresnet_hcas 4":     "check_gresnet_hcas: 3 HCAs are here or with jobs, 4 should be: ",
		"check_gresnet_quarantine": "well",
		"check_gresnet_ports 400":  "well", // that of a job's is not looked at
		"check_gresnet_ports 800":  "check_gresnet_ports: port 1 of mlx5_0 is 4: ACTIVE with 400 Gb/sec (4X NDR), it should be ACTIVE with 800 Gb/sec",
	} {
		if got := n.check(t, line); !strings.HasPrefix(got, want) || want == "well" && got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestNHCFindsWhatIsWrong(t *testing.T) {
	quarantined := &report.Claim{Job: 4711, Quarantined: "it \"is\" {\n    \"not\" back"}
	for name, c := range map[string]struct {
		lay        func(*nhc)
		line, want string
	}{
		"an HCA that is quarantined": {
			func(n *nhc) { n.hca("mlx5_0", quarantined, false); n.hca("mlx5_1", nil, false) },
			"check_gresnet_quarantine", "check_gresnet_quarantine: HCA mlx5_0 is quarantined, gresnet status says why",
		},
		"an HCA whose move hangs": {
			func(n *nhc) { n.hca("mlx5_1", nil, false); n.hca("mlx5_0", quarantined, true) },
			"check_gresnet_quarantine", "check_gresnet_quarantine: HCA mlx5_0 is quarantined, and a move of it has not ended, gresnet status says why",
		},
		"an HCA that is quarantined and away": {
			func(n *nhc) { n.hca("mlx5_0", quarantined, false) },
			"check_gresnet_hcas 1", "check_gresnet_hcas: 0 HCAs are here or with jobs, 1 should be:",
		},
		"a lease that is damaged": {
			func(n *nhc) {
				n.hca("mlx5_0", nil, false)
				n.status.Leases = []report.Lease{
					{Job: 4710, State: inspect.Complete, Steps: []proc.Process{{PID: 7, Name: "slurmstepd"}}, Left: []report.Step{{Kind: "claim"}}},
					{Job: 4711, State: inspect.Damaged},
				}
			},
			"check_gresnet_quarantine", "check_gresnet_quarantine: the lease of job 4711 is damaged, gresnet status says why",
		},
		"a port without a link": {
			func(n *nhc) { n.hca("mlx5_0", nil, false); n.port(t, "mlx5_0", "1: DOWN", "400 Gb/sec (4X NDR)") },
			"check_gresnet_ports 400", "check_gresnet_ports: port 1 of mlx5_0 is 1: DOWN with 400 Gb/sec (4X NDR), it should be ACTIVE with 400 Gb/sec",
		},
		"a node that cannot be read": {
			func(*nhc) {},
			"check_gresnet_hcas 0", "check_gresnet_hcas: gresnet status: gresnet: read the node table: it is torn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &nhc{dir: t.TempDir()}
			c.lay(n)
			if got := n.check(t, c.line); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
