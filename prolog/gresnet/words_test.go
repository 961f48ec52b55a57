package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/test/seed"
)

// said runs an application with commands status and cleanup, and returns what it says, exit code first.
func said(args ...string) string {
	var out, problems strings.Builder
	w := &cli.World{Args: append([]string{"gresnet-x"}, args...), Getenv: func(string) string { return "" }, Stdout: &out, Stderr: &problems}
	tell := func(c *urfave.Context) error {
		_, err := fmt.Fprintf(w.Stdout, "%s config=%s state=%s trace=%t json=%t dir=%s args=%s\n", c.Command.Name, c.String("config"), c.String("state"), c.Bool("trace"), c.Bool("json"), c.String("dir"), c.Args().Slice())
		return err
	}
	flags := []urfave.Flag{&urfave.BoolFlag{Name: "json"}, &urfave.StringFlag{Name: "dir"}, &urfave.UintFlag{Name: "count"}}
	code := w.Run("gresnet-x", func() error {
		return call(w, &urfave.App{Name: "gresnet-x", Commands: []*urfave.Command{{Name: "status", Usage: "show", Flags: flags, Action: tell}, {Name: "cleanup", Action: tell}, {Name: "close", Action: alone}}})
	})
	return fmt.Sprint(code, " ", out.String(), problems.String())
}

func TestFlagsCanBeGivenInAnyOrderBeforeArguments(t *testing.T) {
	want := said("--config", "/c", "--state=/s", "--trace", "status", "--json", "--dir", "/d", "4711", "4712")
	if !strings.Contains(want, "status config=/c state=/s trace=true json=true dir=/d args=[4711 4712]") {
		t.Fatal(want)
	}
	for range 500 {
		global := [][]string{{"--config", "/c"}, {"--state=/s"}, {"--trace"}}
		own := [][]string{{"--json"}, {"--dir", "/d"}, {"4711"}, {"4712"}}
		seed.Shuffle(len(global), func(i, j int) { global[i], global[j] = global[j], global[i] })
		before := seed.IntN(len(global) + 1)
		after := append(slices.Clone(global[before:]), own[:2]...)
		seed.Shuffle(len(after), func(i, j int) { after[i], after[j] = after[j], after[i] })
		after = append(after, own[2:]...)
		args := slices.Concat(slices.Concat(global[:before]...), []string{"status"}, slices.Concat(after...))
		got := said(args...)
		if got != want {
			t.Fatalf("%v: %s", args, got)
		}
	}
}

func TestWhatIsMistypedIsNamedAndNothingIsSuggestedThatMayChangeTheNode(t *testing.T) {
	for args, want := range map[string][2]string{
		"foo":                 {`unknown command "foo"`, "see gresnet-x --help"},
		"swep 7":              {`unknown command "swep"`, "see gresnet-x --help"},
		"-x":                  {"flag provided but not defined: -x", "see gresnet-x --help"},
		"status --jsn":        {"flag provided but not defined: -jsn", "see gresnet-x status --help"},
		"--stat /s":           {"flag provided but not defined: -stat", "see gresnet-x --help"},
		"status --dir":        {"flag needs an argument: -dir", "see gresnet-x status --help"},
		"--config":            {"flag needs an argument: -config", "see gresnet-x --help"},
		"status --count -1":   {`invalid value "-1" for flag -count: parse error`, "see gresnet-x status --help"},
		"help statis":         {`unknown command "statis"`, "see gresnet-x --help"},
		"help status cleanup": {"help is of one command: status cleanup", "see gresnet-x --help"},
		"close it":            {`gresnet-x close takes no arguments: "it"`, "see gresnet-x close --help"},
		"--state /s":          {"a command is missing", "see gresnet-x --help"},
		"--":                  {"a command is missing", "see gresnet-x --help"},
		"version 7":           {`gresnet-x version takes no arguments: "7"`, "see gresnet-x version --help"},
	} {
		got := said(strings.Fields(args)...)
		if !strings.HasPrefix(got, "1 gresnet-x: "+want[0]) || !strings.HasSuffix(got, "gresnet-x: hint: "+want[1]+"\n") {
			t.Errorf("%s: %s", args, got)
		}
	}
}

func TestHelpAndVersionAreCommands(t *testing.T) {
	for command, flag := range map[string]string{"help": "--help", "help status": "status --help", "version": "--version"} {
		got, want := said(strings.Fields(command)...), said(strings.Fields(flag)...)
		if got != want || !strings.HasPrefix(got, "0 ") {
			t.Errorf("%s prints\n%s\nand %s\n%s", command, got, flag, want)
		}
	}
}

func TestTheJournalHasTheProblemsOfCommandsThatChangeTheNodeAlone(t *testing.T) {
	wrong := func(*urfave.Context) error { return errors.New("no") }
	for args, want := range map[string]int{
		"cleanup": 1, "--trace cleanup": 1, "status": 0, "stauts": 0, "cleanup --nonsense": 0, "--nonsense": 0, "--trace": 0,
	} {
		lines := 0
		w := &cli.World{
			Args: append([]string{"gresnet-x"}, strings.Fields(args)...), Getenv: func(string) string { return "" }, Stdout: io.Discard, Stderr: io.Discard,
			Send: func(string, journal.Priority, map[string]string) error { lines++; return nil },
		}
		code := w.Run("gresnet-x", func() error {
			return call(w, &urfave.App{Name: "gresnet-x", Commands: []*urfave.Command{{Name: "status", Action: wrong}, {Name: "cleanup", Action: wrong}}})
		})
		if code != cli.Undone || lines != want {
			t.Errorf("%q: exit %d, the journal has %d lines, wanted %d", args, code, lines, want)
		}
	}
}
