package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
)

// A shell asks for what can come next with the words before, and the library's flag for that. The
// answer has a line for each word: the word, a tab, and what it means. The shell leaves out what does
// not begin as the word that is being typed. Only what names a file or a folder it completes itself.

// values are what flags can have that take one of a few words.
var values = map[string][]string{"--mode": {"shared", "exclusive"}}

// completeWords has the application and its commands answer a shell.
func completeWords(w *cli.World, app *urfave.App) {
	app.EnableBashCompletion = true
	app.BashComplete = func(*urfave.Context) {
		if isValue(w, app.Flags) {
			return
		}
		sayCommands(w, app)
		sayFlags(w, app.Flags)
	}
	for _, command := range app.Commands {
		command.BashComplete = func(c *urfave.Context) {
			if isValue(w, slices.Concat(command.Flags, app.Flags)) {
				return
			}
			sayArguments(w, app, command.Name, c)
			flags := command.Flags
			if command.Name != "help" && command.Name != "version" {
				flags = slices.Concat(flags, app.Flags)
			}
			sayFlags(w, slices.DeleteFunc(flags, func(f urfave.Flag) bool { return f == urfave.VersionFlag }))
		}
	}
}

// isValue tells whether what comes next is the value of a flag, and says which there are.
func isValue(w *cli.World, flags []urfave.Flag) bool {
	before := w.Args[len(w.Args)-2]
	if before[:min(1, len(before))] != "-" {
		return false
	}
	f, takes := find(flags, strings.TrimLeft(before, "-")).(urfave.DocGenerationFlag)
	if !takes || !f.TakesValue() {
		return false
	}
	for _, value := range values[before] {
		fmt.Fprintln(w.Stdout, value)
	}
	return true
}

func sayCommands(w *cli.World, app *urfave.App) {
	for _, command := range app.Commands {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", command.Name, command.Usage)
	}
}

func sayFlags(w *cli.World, flags []urfave.Flag) {
	said := []urfave.Flag{urfave.BashCompletionFlag}
	for _, f := range flags {
		if v, is := f.(urfave.VisibleFlag); is && !v.IsVisible() {
			continue
		}
		if d, is := f.(urfave.DocGenerationFlag); is && !slices.Contains(said, f) {
			said = append(said, f)
			fmt.Fprintf(w.Stdout, "--%s\t%s\n", f.Names()[0], strings.ReplaceAll(d.GetUsage(), "`", ""))
		}
	}
}

// sayArguments says what a command is about: jobs with a lease, or HCAs.
func sayArguments(w *cli.World, app *urfave.App, command string, c *urfave.Context) {
	var names []string
	switch command {
	case "help":
		sayCommands(w, app)
	case "status", "cleanup":
		names = namesIn(filepath.Join(c.String("state"), "jobs"))
	case "release", "try":
		names = namesIn("/sys/class/infiniband")
	}
	for _, name := range names {
		fmt.Fprintln(w.Stdout, name)
	}
}

// namesIn lists a folder, which may not be there, or not for this user.
func namesIn(folder string) (names []string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func find(flags []urfave.Flag, name string) urfave.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}
