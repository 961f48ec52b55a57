package guest

import (
	"strings"
	"testing"
)

// hostModes are who may open the node's uverbs devices, as "0600 root" or so, each once.
func hostModes(t *testing.T) string {
	t.Helper()
	run(t, "udevadm settle")
	return strings.Join(strings.Split(strings.TrimSpace(run(t, "stat -c '%a %U' /dev/infiniband/uverbs* | sort -u")), "\n"), ", ")
}

const reopen = "udevadm trigger --settle --action=add --subsystem-match=infiniband_verbs --subsystem-match=infiniband_mad"

// closeNodes closes the device nodes that moves have made anew, as the package's rule for
// udev does, and else the next prolog.
func closeNodes(t *testing.T) {
	t.Helper()
	run(t, "udevadm settle; "+repo()+"/bin/gresnet-prolog close")
}

func TestWithoutAnHCAOfItsOwnAJobHasNone(t *testing.T) {
	slurm(t)
	run(t, reopen)
	if got := hostModes(t); got != "666 root" {
		t.Fatalf("the kernel's device nodes are %s", got)
	}
	probe := probeProgram(t)
	out, err := tryAs("alice", "srun env GRESNET_PROBE=/dev/infiniband "+probe)
	if err == nil || strings.Contains(out, "context") || strings.Count(out, "permission denied") != len(hcas(t)) {
		t.Errorf("a job without a GRES, the first since the boot: %v: %s", err, out)
	}
	if got := hostModes(t); got != "600 root" {
		t.Errorf("device nodes are %s after a prolog", got)
	}
	before := picture(t)
	if out := as(t, "alice", "srun --gres=nic:2 env GRESNET_PROBE=/dev/infiniband "+probe); strings.Count(out, ": context") != 2 {
		t.Errorf("a job with two HCAs: %s", out)
	}
	eventually(t, "the epilog has run", noLease)
	same(t, before)
	if out, err := tryAs("alice", "GRESNET_PROBE=/dev/infiniband "+probe); err == nil || strings.Contains(out, "context") {
		t.Errorf("outside of any job: %v: %s", err, out)
	}
}

func TestWhatTheSiteDoesNotListIsNotClosed(t *testing.T) {
	anHCAOfEachKind(t)
	run(t, reopen)
	must(t, "prolog", homeJob)
	must(t, "epilog", homeJob)
	names := hcas(t)
	for i, name := range names {
		node := uverbsOf(t, name)
		want := "666"
		if i == 0 || i == len(names)-1 {
			want = "600"
		}
		if got := strings.TrimSpace(run(t, "stat -c %a /dev/infiniband/"+node)); got != want {
			t.Errorf("%s of %s is %s, want %s", node, name, got, want)
		}
	}
}

func TestALeaseGivesBackClosedNodesWhoeverOpenedThem(t *testing.T) {
	names := hcasWithGPUs(t)
	before := picture(t)
	must(t, "prolog", homeJob)
	for _, name := range names {
		run(t, "chmod 666 /dev/infiniband/"+uverbsOf(t, name))
	}
	must(t, "epilog", homeJob)
	same(t, before)
}

func TestAnOpenNodeIsGivenBackOpenAndClosedWhenTheSiteWantsThat(t *testing.T) {
	anHCAOfEachKind(t)
	closing := run(t, "cat /etc/gresnet/gresnet.toml")
	writeConfig(t, closing+"[access]\nhost = \"open\"\n")
	run(t, reopen)
	before := picture(t)
	run(t, repo()+"/bin/gresnet-prolog close")
	same(t, before)
	must(t, "prolog", homeJob)
	writeConfig(t, closing)
	must(t, "epilog", homeJob) // what host was when the job began holds
	same(t, before)
	writeConfig(t, strings.Split(closing, "[[hca]]")[0]) // all of them
	run(t, repo()+"/bin/gresnet-prolog close")
	if got := hostModes(t); got != "600 root" {
		t.Errorf("device nodes are %s", got)
	}
}

// withRule has udev know the rule of the package, with the program where the package
// has it, on a node whose gresnet.service has run.
func withRule(t *testing.T) {
	t.Helper()
	const undo = "rm -f /run/udev/rules.d/90-gresnet.rules /usr/sbin/gresnet-prolog; udevadm control --reload"
	run(t, "mkdir -p /run/udev/rules.d; cp "+repo()+"/packaging/systemd/udev.rules /run/udev/rules.d/90-gresnet.rules; ln -s "+repo()+"/bin/gresnet-prolog /usr/sbin; udevadm control --reload; "+repo()+"/bin/gresnet-epilog boot")
	t.Cleanup(func() { run(t, undo) })
}

func TestTheRuleForUdevKeepsNodesClosedThatAreMadeAnew(t *testing.T) {
	anHCAOfEachKind(t)
	withRule(t)
	run(t, reopen)
	for i, name := range hcas(t) {
		want := "666"
		if i == 0 || i == len(hcas(t))-1 {
			want = "600" // those that the site lists
		}
		if got := strings.TrimSpace(run(t, "stat -c %a /dev/infiniband/"+uverbsOf(t, name))); got != want {
			t.Errorf("the node of %s is %s, want %s", name, got, want)
		}
	}
}

func TestTheRuleForUdevDoesNothingWhereTheSiteWantsNodesOpen(t *testing.T) {
	anHCAOfEachKind(t)
	withRule(t)
	writeConfig(t, run(t, "cat /etc/gresnet/gresnet.toml")+"[access]\nhost = \"open\"\n")
	run(t, reopen)
	if got := hostModes(t); got != "666 root" {
		t.Errorf("device nodes are %s", got)
	}
}

func TestTheRuleForUdevLeavesLeasesAlone(t *testing.T) {
	hcasWithGPUs(t)
	withRule(t)
	run(t, reopen)
	before := picture(t)
	must(t, "prolog", homeJob)
	const nodes = "stat -c '%n %a %u %t:%T' /run/gresnet/jobs/*/dev/*"
	leased := run(t, nodes)
	run(t, reopen)
	if got := run(t, nodes); got != leased {
		t.Errorf("the lease's device nodes are\n%swere\n%s", got, leased)
	}
	must(t, "epilog", homeJob)
	same(t, before)
}

func TestBootClosesWhatTheSiteWantsClosed(t *testing.T) {
	slurm(t)
	run(t, reopen)
	writeConfig(t, "[acess]\n")
	if out, code := command(t, "gresnet-epilog boot"); code != 1 || hostModes(t) != "666 root" {
		t.Errorf("with a configuration that cannot be read: exit %d, device nodes are %s: %s", code, hostModes(t), out)
	}
	writeConfig(t, config)
	if out, code := command(t, "gresnet-epilog boot"); code != 0 || hostModes(t) != "600 root" {
		t.Errorf("exit %d, device nodes are %s: %s", code, hostModes(t), out)
	}
}
