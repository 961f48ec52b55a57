package main

import (
	"strings"
	"testing"
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
