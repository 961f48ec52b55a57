// Command run runs gresnet's tests and ends with what passed and where the time went. The
// Makefile's targets call it: test, test-vm, rest, test-long and test-matrix, each of which
// is a list of lanes in test/guest/vm.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"gresnet/test/guest/vm"
)

const usage = `run [-limit DURATION] [-enough DURATION] [-jobs N] RUN [FOLDER...]

  test         quick units, network namespaces, the plugin's harness, and a smoke set in the VM
  test-vm      all short tests in the VM, in both RDMA netns modes; FOLDER: those of test/guest/FOLDER
  rest         what CI runs after test: the rest of test-vm, slow units with all kills, static analysis
  test-long    all tests, all kernels, two nodes, packages, fuzzing; another GRESNET_SEED each time
  test-matrix  what depends on Slurm, with each of its versions that Debian has
`

func main() {
	limit := flag.Duration("limit", 0, "when the run ends at the latest, with the names of the tests that hang")
	enough := flag.Duration("enough", 0, "after what time no VM begins any more: the tests that are left are skipped, and counted")
	watching := flag.Duration("watch", 0, "run a package's tests for go test -exec, and end them if they say nothing for so long")
	jobs := flag.Int("jobs", 0, "how many VMs run at once (one more than there are processors; rest: as many)")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	if *watching > 0 {
		os.Exit(watch(*watching, flag.Args(), os.Stdout))
	}
	// A VM would go on without this program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &run{ctx: ctx, out: os.Stderr, start: time.Now(), limit: *limit, enough: *enough, jobs: *jobs, what: flag.Arg(0), skipped: map[string]int{}}
	if _, known := vm.Runs[r.what]; !known || flag.NArg() > 1 && r.what != "test-vm" {
		flag.Usage()
		os.Exit(2)
	}
	r.folders = flag.Args()[1:]
	if r.what != "test-long" && os.Getenv("GRESNET_SEED") == "" {
		os.Setenv("GRESNET_SEED", "1") // a commit has one answer; test-long looks for what others find
	}
	if err := r.all(); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		r.fail("run", []string{err.Error()})
	}
	fmt.Println(r.report())
	if len(r.failed) > 0 {
		os.Exit(1)
	}
}

// limits are generous: they are there for what hangs.
var limits = map[string]time.Duration{"test": time.Hour, "test-vm": 2 * time.Hour, "rest": 2 * time.Hour, "test-long": 10 * time.Hour, "test-matrix": 10 * time.Hour}

func (r *run) all() error {
	if r.limit == 0 {
		r.limit = limits[r.what]
	}
	tests, err := vm.Tests("test/guest")
	if err != nil {
		return err
	}
	for _, folder := range r.folders {
		if !slices.ContainsFunc(tests, func(t vm.Test) bool { return t.Shard == folder }) {
			return fmt.Errorf("no tests in test/guest/%s", folder)
		}
	}
	plan := r.plan(tests)
	// Downloads and the disk are the images' work, compiling is the processor's.
	images := r.during("images", func() error { return r.images(plan) })
	if err := r.build(plan); err != nil {
		return err
	}
	// Many tests wait for something: those of this machine and the VMs' leave each other room.
	host := r.during("host", r.host)
	if err := <-images; err != nil {
		return err
	}
	r.guests(plan)
	if err := <-host; err != nil {
		return err
	}
	switch r.what {
	case "rest":
		return r.scripts("static analysis", "test/lint")
	case "test-long":
		return r.scripts("static analysis", "test/lint", "fuzz targets", "test/fuzz 60s", "models", "make --no-print-directory model",
			"packages", "make --no-print-directory packages-test packages-test-vm")
	}
	return nil
}
