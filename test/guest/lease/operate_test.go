package lease

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const operateJob = "SLURM_JOB_ID=900090 SLURM_JOB_GPUS=0"

// withOperation has withGPUs' configuration with more in it.
func withOperation(t *testing.T, text string) (names []string) {
	t.Helper()
	names = vm.WithGPUs(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+text)
	return names
}

// port sets a parameter of the stubs that makes an HCA's port worse, until the test ends.
func port(t *testing.T, parameter, hca string) {
	t.Helper()
	file := "/sys/module/ibfake/parameters/" + parameter
	vm.Run(t, "echo "+strings.TrimPrefix(hca, "ibfake")+" >"+file)
	t.Cleanup(func() { vm.Run(t, "echo -1 >"+file) })
}

func TestAPortThatIsReturnedWithoutItsLinkIsAWarning(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", operateJob)
	port(t, "nolink", names[0])
	out, code := vm.ByHand(t, "epilog", operateJob)
	if want := "warning: port 1 of " + names[0] + " came back with state DOWN, it had ACTIVE"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
	}
	port(t, "nolink", "ibfake-1")
	vm.Same(t, before)
}

func TestALinkThatComesUpLateIsWaitedFor(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", operateJob)
	port(t, "nolink", names[0])
	var out strings.Builder
	epilog := exec.Command("bash", "-c", vm.SlurmdEnv+operateJob+" "+vm.Repo()+"/bin/gresnet-epilog")
	epilog.Stdout, epilog.Stderr = &out, &out
	if err := epilog.Start(); err != nil {
		t.Fatal(err)
	}
	vm.Eventually(t, "the HCA is back while its lease is there", func() bool {
		_, err := vm.Try("[ -e /run/gresnet/jobs/900090/journal ] && ! [ -e /run/gresnet/jobs/900090/env ] && rdma dev show " + names[0])
		return err == nil
	})
	port(t, "nolink", "ibfake-1")
	if err := epilog.Wait(); err != nil || out.String() != "" {
		t.Errorf("epilog: %v: %s", err, out.String())
	}
	vm.Same(t, before)
}

func TestAnHCAWithASlowerPortIsQuarantinedWhereTheSiteWantsThat(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	names := withOperation(t, "[health]\nport = \"quarantine\"\n")
	before := vm.Picture(t)
	vm.Must(t, "prolog", operateJob)
	port(t, "slow", names[0])
	out, code := vm.ByHand(t, "epilog", operateJob)
	if want := "port 1 of " + names[0] + " came back with rate 25 Gb/sec (1X EDR), it had 100 Gb/sec (4X EDR)"; code != 2 || !strings.Contains(out, want) {
		t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
	}
	if out, _ := vm.Command(t, "gresnet status"); !strings.Contains(out, names[0]+" (") || !strings.Contains(out, "is quarantined:\n  port 1 of") {
		t.Errorf("status:\n%s", out)
	}
	port(t, "slow", "ibfake-1")
	vm.Must(t, "epilog", operateJob)
	vm.Same(t, before)
}

func TestAnHCAWithFaultsBeyondALimitIsQuarantinedUntilItIsReleased(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	const file = "/tmp/metrics/gresnet.prom"
	names := withOperation(t, "[health]\nwarn = { out_of_sequence = 6, symbol_error = 5 }\nquarantine = { symbol_error = 5, link_downed = 0 }\n[metrics]\nfile = \""+file+"\"\n")
	vm.Run(t, "rm -rf /tmp/metrics; mkdir /tmp/metrics")
	before := vm.Picture(t)
	vm.Must(t, "prolog", operateJob)
	port(t, "noisy", names[0])
	out, code := vm.ByHand(t, "epilog", operateJob)
	for _, want := range []string{
		"warning: port 1 of " + names[0] + " counted 7 more of out_of_sequence for the job, [health] allows 6 [GN641]",
		"port 1 of " + names[0] + " counted 1 more of link_downed for the job, [health] allows 0",
	} {
		if code != 2 || !strings.Contains(out, want) || strings.Contains(out, "symbol_error") {
			t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
		}
	}
	if out, _ := vm.Command(t, "gresnet status"); !strings.Contains(out, names[0]+" (") || !strings.Contains(out, "is quarantined:\n  port 1 of") {
		t.Errorf("status:\n%s", out)
	}
	if text := vm.Run(t, "cat "+file); !strings.Contains(text, `gresnet_port_faults_total{what="faults"} 2`+"\n") || !strings.Contains(text, "gresnet_quarantines_total 1\n") {
		t.Errorf("metrics:\n%s", text)
	}
	if out, code := vm.Command(t, "gresnet release "+names[0]); code != 0 {
		t.Errorf("release: exit %d: %s", code, out)
	}
	vm.Must(t, "prolog", operateJob) // it counts from what is there now
	vm.Must(t, "epilog", operateJob)
	port(t, "noisy", "ibfake-1")
	vm.Same(t, before)
}

func TestAnHCAThatIsReleasedStaysReleasedThoughItsPortIsWorse(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	names := withOperation(t, "[health]\nport = \"quarantine\"\n")
	vm.Must(t, "prolog", operateJob)
	port(t, "slow", names[0])
	if out, code := vm.ByHand(t, "epilog", operateJob); code != 2 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if out, code := vm.Command(t, "gresnet release "+names[0]); code != 0 {
		t.Errorf("release: exit %d: %s", code, out)
	}
	vm.Must(t, "prolog", operateJob)
	vm.Must(t, "epilog", operateJob)
}

func TestWithHealthOffNobodyLooksAtPorts(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := withOperation(t, "[health]\nport = \"off\"\n")
	vm.Must(t, "prolog", operateJob)
	port(t, "slow", names[0])
	vm.Must(t, "epilog", operateJob)
}

func TestTheMetricsFileSaysWhatTheNodeHasAndDid(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	const file = "/tmp/metrics/gresnet.prom"
	all := len(withOperation(t, "[metrics]\nfile = \""+file+"\"\n"))
	vm.Run(t, "rm -rf /tmp/metrics; mkdir /tmp/metrics")
	has := func(lines ...string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(string(text), "\n"+line+"\n") {
				t.Errorf("the file lacks %s:\n%s", line, text)
			}
		}
	}
	moves := func(direction string) string {
		n := 0
		if vm.IsExclusive(t) {
			n = 1
		}
		return fmt.Sprintf(`gresnet_moves_total{device="rdma",direction="%s",result="done"} %d`, direction, n)
	}
	vm.Must(t, "prolog", operateJob)
	has(`gresnet_rdma_mode{mode="`+vm.Mode(t)+`"} 1`, `gresnet_leases{state="complete"} 1`,
		`gresnet_hcas{state="free"} 1`, `gresnet_hcas{state="leased"} 1`, fmt.Sprintf(`gresnet_hcas{state="unmapped"} %d`, all-2),
		`gresnet_runs_total{program="prolog",result="done"} 1`, moves("out"))
	vm.Must(t, "epilog", operateJob)
	has(`gresnet_leases{state="complete"} 0`, `gresnet_hcas{state="free"} 2`,
		`gresnet_runs_total{program="epilog",result="done"} 1`, `gresnet_run_seconds_count{program="epilog"} 1`,
		`gresnet_moves_total{device="interface",direction="back",result="done"} 1`, moves("out"), moves("back"))
}

// otherMode returns the RDMA netns mode that the node is not in.
func otherMode(t *testing.T) string {
	t.Helper()
	if vm.IsExclusive(t) {
		return "shared"
	}
	return "exclusive"
}

func TestBootSetsTheModeThatTheConfigurationWants(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	was, other := vm.Mode(t), otherMode(t)
	withOperation(t, "[rdma]\nmode = \""+other+"\"\n")
	before := vm.Picture(t)
	defer func() {
		vm.WriteConfig(t, "[rdma]\nmode = \""+was+"\"\n")
		if out, code := vm.Command(t, "gresnet boot"); code != 0 {
			t.Errorf("exit %d: %s", code, out)
		}
		if vm.Mode(t) != was {
			t.Errorf("the mode is %s, it was %s", vm.Mode(t), was)
		}
		vm.Same(t, before)
	}()
	out, code := vm.ByHand(t, "prolog", operateJob)
	if want := "warning: the node is in " + was + " mode, the configuration wants " + other; code != 0 || !strings.Contains(out, want) {
		t.Errorf("a prolog before that: exit %d, wanted %q:\n%s", code, want, out)
	}
	// The lease's own namespace is in the mode's way until it is returned.
	if out, code := vm.Command(t, "gresnet boot"); code != 0 || out != "" {
		t.Errorf("exit %d: %s", code, out)
	}
	if vm.Mode(t) != other {
		t.Errorf("the mode is %s, wanted %s", vm.Mode(t), other)
	}
	if !vm.NoLease() {
		t.Error("the lease is there still")
	}
}

func TestBootSaysThatNamespacesAreInTheModesWay(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	was := vm.Mode(t)
	withOperation(t, "[rdma]\nmode = \""+otherMode(t)+"\"\n")
	vm.Run(t, "ip netns add inway")
	out, code := vm.Command(t, "gresnet boot")
	for _, want := range []string{"there are other network namespaces", "hint: lsns -t net "} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, wanted %q:\n%s", code, want, out)
		}
	}
	if vm.Mode(t) != was {
		t.Errorf("the mode is %s, it was %s", vm.Mode(t), was)
	}
	vm.Run(t, "ip netns del inway")
}
