package main

import (
	"bytes"
	"testing"

	"gresnet/lib/cli"
	"gresnet/test/golden"
)

func TestEachCommandsHelpFitsATerminal(t *testing.T) {
	for name, args := range map[string][]string{
		"help.txt":         {"--help"},
		"help-sweep.txt":   {"sweep", "--help"},
		"help-boot.txt":    {"boot", "--help"},
		"help-release.txt": {"release", "--help"},
	} {
		var out, problems bytes.Buffer
		code := run(&cli.World{Args: append([]string{"gresnet-epilog"}, args...), Getenv: func(string) string { return "" }, Stdout: &out, Stderr: &problems})
		if code != cli.Done || problems.Len() > 0 {
			t.Errorf("%v: exit code %d, %s", args, code, problems.String())
		}
		golden.Check(t, name, out.String())
		golden.Fits(t, out.String())
	}
}
