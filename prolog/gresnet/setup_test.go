package main

import (
	"flag"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/setup"
)

func TestSetupRefusesFlagsOfWhichOneWouldBeTakenInSilence(t *testing.T) {
	for _, args := range []string{"--dry-run --undo", "--dry-run --restart", "--mode exclusive --undo", "--mode exlusive"} {
		said := problem(t, append([]string{"setup"}, strings.Fields(args)...)...)
		if !strings.Contains(said, "exclude each other") && !strings.Contains(said, "unknown mode") {
			t.Errorf("%s: %s", args, said)
		}
	}
}

func TestAnUndoSaysThatTheModeStaysUntilAReboot(t *testing.T) {
	for _, c := range []struct {
		before, after string
		said          bool
	}{
		{"exclusive", "", true}, {"exclusive", "shared", true}, {"exclusive", "exclusive", false}, {"", "", false}, {"shared", "", false}, {"", "exclusive", false},
	} {
		if said := modeLeft(c.before, c.after); (said != "") != c.said {
			t.Errorf("%q, then %q: %q", c.before, c.after, said)
		}
	}
}

func TestWhoSetsAModeAloneIsToldToRebootAndNotToRestartSlurm(t *testing.T) {
	const toml = "/etc/gresnet/gresnet.toml"
	for path, want := range map[string]string{toml: "reboot it", "/etc/slurm/slurm.conf": "systemctl restart slurmctld"} {
		set := flag.NewFlagSet("setup", flag.ContinueOnError)
		set.String("config", toml, "")
		set.String("mode", "", "")
		if err := set.Parse([]string{"-mode", "exclusive"}); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		tell(&said, setup.Plan{Edits: []setup.Edit{{Path: toml}, {Path: path}}}, urfave.NewContext(nil, set, nil))
		if !strings.Contains(said.String(), want) || strings.Contains(said.String(), "restart") != (path != toml) {
			t.Errorf("%s: %s", path, said.String())
		}
	}
}
