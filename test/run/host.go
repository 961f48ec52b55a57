package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

const binaries = ".cache/test"

// build makes the programs, and a program of each folder's tests, for each architecture of a plan.
func (r *run) build(plan []job) error {
	r.say("building")
	return <-r.during("build", func() error {
		if err := r.command("test/need", "iproute2", "procps", "util-linux", "gcc", "make", "libc6-dev", "libpam0g-dev", "libslurm-dev", "nftables", "iptables"); err != nil {
			return err
		}
		if err := r.command("make", "--no-print-directory", "-s", "all", "bench-build"); err != nil {
			return err
		}
		if err := isStatic("bin/gresnet-prolog"); err != nil {
			return err
		}
		if r.what == "test-long" {
			if err := r.command("make", "--no-print-directory", "-s", "first"); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(binaries, 0o755); err != nil {
			return err
		}
		if err := r.command("go", "test", "-c", "-o", binaries+"/", "./test/guest/..."); err != nil {
			return err
		}
		if slices.ContainsFunc(plan, func(j job) bool { return j.lane.Arch == "arm64" }) {
			return r.command("make", "--no-print-directory", "-s", "arm64", "ARM64_TESTS="+binaries+"/arm64/")
		}
		return nil
	})
}

func isStatic(program string) error {
	out, _ := exec.Command("ldd", program).Output() // it fails for a static program
	if strings.Contains(string(out), "=>") {
		return fmt.Errorf("%s is dynamically linked:\n%s", program, out)
	}
	return nil
}

// images builds what the lanes of a plan boot.
func (r *run) images(plan []job) error {
	built := map[string]bool{}
	for _, j := range plan {
		arguments := j.lane.Image()
		if key := strings.Join(arguments, " "); !built[key] {
			built[key] = true
			if err := r.command("test/vm/vm", arguments...); err != nil {
				return err
			}
		}
	}
	return nil
}

// host runs what this machine's own kernel can show, if the run includes that.
func (r *run) host() error {
	slow, err := findSlow(".")
	if err != nil {
		return err
	}
	switch r.what {
	case "test":
		return r.quick(slow)
	case "rest":
		r.say("the slow tests of this kernel, with all kills")
		return r.slow(slow)
	case "test-long":
		return errors.Join(r.quick(slow), r.slow(slow))
	}
	return nil
}

// quick runs all but the slow tests, and the plugin's harness.
func (r *run) quick(slow slow) error {
	r.say("units, and network namespaces of this kernel; %d slow tests are left to make ci", slow.count())
	out, err := r.program("go", "list", "./...").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	arguments := []string{"-skip", slow.pattern()}
	for _, p := range strings.Fields(string(out)) {
		if !strings.Contains(p, "/test/guest/") || strings.HasSuffix(p, "/vm") {
			arguments = append(arguments, p)
		}
	}
	plugin := r.during("plugin", func() error { return r.command("make", "--no-print-directory", "-C", "spank", "test") })
	err = <-r.during("units", func() error { return r.native(r.variables(), arguments...) })
	return errors.Join(err, <-plugin)
}

// slow runs the slow tests: those of kills, which take as long as all others, beside them.
func (r *run) slow(slow slow) error {
	kills, others := slow.split("Kill")
	killed := r.during("kills", func() error { return r.native(r.variables(), kills.arguments()...) })
	err := <-r.during("others", func() error { return r.native(r.variables(), others.arguments()...) })
	return errors.Join(err, <-killed)
}

// variables returns what the tests of this kernel have in their environment.
func (r *run) variables() []string {
	switch r.what {
	case "rest":
		return []string{"GRESNET_TEST=long"}
	case "test-long":
		return []string{"GRESNET_TEST=long", "GRESNET_SLURMS=bookworm trixie sid"}
	}
	return nil
}

// native runs go test with more arguments and variables, and counts.
func (r *run) native(env []string, arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// go's own ten minutes for a package are too few for a busy machine.
	all := []string{"test", "-count=1", "-v", "-timeout", r.left().String(), "-exec", fmt.Sprintf("%s -watch %s", self, r.patience())}
	tests := r.program("go", append(all, arguments...)...)
	tests.Env = append(os.Environ(), env...)
	newStream(r, "host", nil).read(tests)
	return nil
}

// scripts runs commands, each after a name.
func (r *run) scripts(namesAndCommands ...string) error {
	for i := 0; i < len(namesAndCommands); i += 2 {
		name, line := namesAndCommands[i], strings.Fields(namesAndCommands[i+1])
		r.say(name)
		if err := <-r.during(name, func() error { return r.command(line[0], line[1:]...) }); err != nil {
			return err
		}
	}
	return nil
}

// command runs a command whose output is the run's.
func (r *run) command(name string, arguments ...string) error {
	cmd := r.program(name, arguments...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// program returns a program that ends when the run does.
func (r *run) program(name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, name, arguments...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

func (r *run) say(format string, arguments ...any) {
	fmt.Fprintf(r.out, "== "+format+"\n", arguments...)
}
