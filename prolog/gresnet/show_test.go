package main

import (
	"bytes"
	"io"
	"testing"

	"gresnet/lib/admin/check"
	"gresnet/lib/admin/cli"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/test/golden"
)

func TestEachCommandsHelpFitsATerminal(t *testing.T) {
	for name, args := range map[string][]string{
		"help.txt":         {"--help"},
		"help-status.txt":  {"status", "--help"},
		"help-scan.txt":    {"scan", "--help"},
		"help-plan.txt":    {"plan", "--help"},
		"help-check.txt":   {"check", "--help"},
		"help-explain.txt": {"explain", "--help"},
		"help-metrics.txt": {"metrics", "--help"},
		"help-setup.txt":   {"setup", "--help"},
		"help-close.txt":   {"close", "--help"},
		"help-cleanup.txt": {"cleanup", "--help"},
		"help-boot.txt":    {"boot", "--help"},
		"help-release.txt": {"release", "--help"},
		"help-try.txt":     {"try", "--help"},
	} {
		var out, problems bytes.Buffer
		code := run(&cli.World{Args: append([]string{"gresnet"}, args...), Getenv: func(string) string { return "" }, Stdout: &out, Stderr: &problems})
		if code != cli.Done || problems.Len() > 0 {
			t.Errorf("%v: exit code %d, %s", args, code, problems.String())
		}
		golden.Check(t, name, out.String())
		golden.Fits(t, out.String())
	}
}

func TestWhatIsFoundIsReadByMachines(t *testing.T) {
	id := node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:0c:00.0"}
	for name, found := range map[string]report.Document{
		"scan.json": &report.Scan{
			Mode: "exclusive",
			GPUs: []report.GPU{{PCI: "0000:07:00.0", NUMA: 0}},
			HCAs: []report.HCA{
				{
					Gres: "nic", Type: "hdr", Index: new(0), ID: id, Name: "mlx5_0", Driver: "mlx5", NUMA: new(0), Cores: []int{0, 1},
					Ports:  []report.Port{{Num: 1, LinkLayer: "InfiniBand", State: "ACTIVE", Interface: "ib0", Rate: "200 Gb/sec (4X HDR)"}},
					Chars:  []report.Char{{Kind: "uverbs", Name: "uverbs0"}, {Kind: "umad", Port: 1, Name: "umad0"}},
					Serves: []int{0}, Distance: []string{"switch"},
				},
				{Gres: "nic", Index: new(1), ID: node.ID{GUID: "0002:c903:00ab:0001"}, Name: "mlx5_1", NUMA: new(-1), Away: true, Keep: true, Claim: &report.Claim{Job: 4711, Quarantined: "it hangs"}},
			},
		},
		"plan.json": aPlan(),
		"check.json": &report.Check{Findings: []report.Finding{
			{Level: check.OK, About: "mapping", Text: "1 HCAs"},
			{Level: check.Error, About: "slurm.conf", Text: "it has no Epilog", Do: "set Epilog=/usr/sbin/gresnet-epilog"},
			{Level: check.Error, About: "HCA mlx5_1", Text: "it is quarantined: it hangs", Do: "fix the cause, then gresnet release mlx5_1", HCA: &report.HCA{Name: "mlx5_1", ID: id}},
		}},
	} {
		golden.Check(t, name, golden.Printed(t, func(w io.Writer) error { return report.Print(w, found) }))
	}
}

// problem returns what the program says of a call that it refuses.
func problem(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	code := run(&cli.World{Args: append([]string{"gresnet"}, args...), Getenv: func(string) string { return "" }, Stdout: &out, Stderr: &problems})
	if code != cli.Undone {
		t.Errorf("%v: exit code %d", args, code)
	}
	return problems.String()
}
