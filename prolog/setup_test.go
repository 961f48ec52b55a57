package main

import (
	"strings"
	"testing"

	"gresnet/lib/inventory"
)

func TestANodesLineCountsItsHCAsByGRESAndType(t *testing.T) {
	for want, hcas := range map[string][]inventory.HCA{
		"":                       {{Name: "mlx5_0"}},
		"nic:2":                  {{Gres: "nic"}, {Gres: "nic", Index: 1}, {Name: "mlx5_2"}},
		"nic:hdr:2,nic:1,fast:1": {{Gres: "nic", Type: "hdr"}, {Gres: "fast"}, {Gres: "nic", Type: "hdr", Index: 1}, {Gres: "nic", Index: 2}},
		"nic:ndr:1,fast:9:1":     {{Gres: "fast", Type: "9"}, {Gres: "nic", Type: "ndr"}},
	} {
		if got := counts(inventory.Inventory{HCAs: hcas}, []string{"nic", "fast"}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

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
