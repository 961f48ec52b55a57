// Command bench measures gresnet against the floor (test/floor), a shell script
// and CNI's plugins, and shows what it measured. See test/bench/README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

const usage = `bench measure [-form full|short|network|load] [-vm 1|2 | -only CASE] [-limit DURATION] [-programs DIR] [-cni DIR] FILE
bench merge   FILE PART PART
bench native  [-programs DIR] [-rounds N] FILE
bench parts   [-programs DIR] [-rounds N] FILE
bench dump    [-mode exclusive|shared] [-kind roce|ib] DIR FILE HCA INTERFACE
bench table   FILE
bench plot    FILE SVG
bench trace   [-hertz N] CASE FILE SAMPLES
bench publish FOLDER`

func run(args []string) error {
	verbs := map[string]func([]string) error{
		"measure": measureCommand, "native": nativeCommand, "parts": partsCommand, "part": partCommand, "peak": peakCommand, "merge": mergeCommand, "dump": dumpCommand,
		"table": tableCommand, "plot": plotCommand, "trace": traceCommand, "publish": publishCommand,
	}
	if len(args) == 0 || verbs[args[0]] == nil {
		return errors.New("usage:\n" + usage)
	}
	return verbs[args[0]](args[1:])
}

// arguments parses flags, and wants so many words after them.
func arguments(f *flag.FlagSet, args []string, words int) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != words {
		return errors.New("usage:\n" + usage)
	}
	return nil
}

func measureCommand(args []string) error {
	f := flag.NewFlagSet("measure", flag.ContinueOnError)
	form := f.String("form", "full", "full, short, network or load")
	programs := f.String("programs", "bin", "folder of the programs")
	cni := f.String("cni", "", "folder of CNI's plugins; none: they are left out")
	limit := f.Duration("limit", 13*time.Minute, "begin nothing that would end later, by the clock of the VM's host")
	vm := f.Int("vm", 0, "measure the cases of the first or the second of two VMs; 0: all")
	name := f.String("only", "", "the one case to measure")
	if err := arguments(f, args, 1); err != nil {
		return err
	}
	cases, err := casesOf(*form)
	if err != nil {
		return err
	}
	switch {
	case *name != "":
		if cases, err = only(cases, *name); err != nil {
			return err
		}
	case *vm == 1 || *vm == 2:
		cases = deal(cases)[*vm-1]
	case *vm != 0:
		return fmt.Errorf("there is no VM %d: 1 or 2", *vm)
	}
	return measure(*form, cases, *limit, *programs, *cni, f.Arg(0))
}

// mergeCommand writes one file of what two VMs have measured.
func mergeCommand(args []string) error {
	f := flag.NewFlagSet("merge", flag.ContinueOnError)
	if err := arguments(f, args, 3); err != nil {
		return err
	}
	a, err := readResults(args[1])
	if err != nil {
		return err
	}
	b, err := readResults(args[2])
	if err != nil {
		return err
	}
	r, err := merge(a, b)
	if err != nil {
		return err
	}
	return r.write(args[0])
}

func tableCommand(args []string) error {
	r, err := show("table", args, 1)
	if err != nil {
		return err
	}
	switch r.Form {
	case "parts":
		fmt.Print(r.parts())
	case "load":
		fmt.Print(r.curves())
	default:
		fmt.Print(r.table())
	}
	return nil
}

func plotCommand(args []string) error {
	r, err := show("plot", args, 2)
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], []byte(r.plot()), 0o644)
}

// show reads the results that a verb is about.
func show(verb string, args []string, words int) (results, error) {
	f := flag.NewFlagSet(verb, flag.ContinueOnError)
	if err := arguments(f, args, words); err != nil {
		return results{}, err
	}
	return readResults(f.Arg(0))
}
