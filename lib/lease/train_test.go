package lease

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/test/await"
	"gresnet/test/netnstest"
)

// unplug takes the carriers of a testBed's interfaces, and plug gives them.
const (
	unplug = "ip link set far down; ip link set farther down"
	plug   = "ip link set far up; ip link set farther up"
)

// raised is a shell command that succeeds where all interfaces of a testBed are up.
const raised = `[ "$(ip -br link show up | grep -c '^hca[01]')" = 2 ]`

// lookInLease runs a shell command in the network namespace of the job, if it has one.
func lookInLease(state, command string) error {
	netns := filepath.Join(state, "jobs", fmt.Sprint(testJob), "netns")
	return exec.Command("nsenter", "--net="+netns, "sh", "-c", command).Run()
}

// onNode is the same for the node.
func onNode(node *netnstest.NS, command string) error {
	return exec.Command("nsenter", "--net="+node.Path, "sh", "-c", command).Run()
}

// train is what the links of a node do: they come up when all interfaces are. It tells of
// interfaces that had addresses before.
func train(t *testing.T, node *netnstest.NS, look func(command string) error) {
	t.Helper()
	await.Until(t, "all interfaces are brought up while none has a carrier", func() bool { return look(raised) == nil })
	// An address is given when its interface has been waited for.
	if look("ip -4 addr | grep -E 'inet 10[.][01][.]'") == nil {
		t.Error("an interface was waited for before all were brought up")
	}
	node.Run(plug)
}

func TestAllInterfacesAreUpBeforeTheCarrierOfOneIsWaitedFor(t *testing.T) {
	node, state := testBed(t)
	before := testPicture(node)
	for _, r := range []struct {
		program string
		look    func(command string) error
	}{
		{"prolog", func(command string) error { return lookInLease(state, command) }},
		{"epilog", func(command string) error { return onNode(node, command) }},
	} {
		if r.program == "epilog" {
			node.Run(unplug)
		}
		cmd := whole.command(node, state, r.program, never)
		cmd.Env = append(cmd.Env, "GRESNET_BED_THEN="+unplug)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		train(t, node, r.look)
		if err := cmd.Wait(); err != nil || out.String() != "" {
			t.Fatalf("%s: %v: %s", r.program, err, out.String())
		}
	}
	testSame(t, node, state, before)
}

func TestALinkThatDoesNotComeIsNamedAndKeepsNoOtherFromTheJob(t *testing.T) {
	netnstest.Slow(t)
	node, state := testBed(t)
	// Without a carrier the kernel takes no next hop objects.
	node.Run("ip nexthop flush")
	before := testPicture(node)
	cmd := whole.command(node, state, "prolog", never)
	// Half of its time is for what comes after waits in vain.
	cmd.Env = append(cmd.Env, "GRESNET_BED_THEN=ip link set far down", "GRESNET_BED_DEADLINE=10s")
	out, err := cmd.CombinedOutput()
	if want := "warning: hca0 (port 1 of 0002:c903:00ab:hca0"; err != nil || strings.Count(string(out), "warning") != 1 || !strings.Contains(string(out), want) {
		t.Errorf("the prolog: %v: %s, wanted %q", err, out, want)
	}
	if err := lookInLease(state, "ip -4 -br addr show dev hca1 up | grep 10.1.0.2 && ip -4 addr show dev hca0 | grep 10.0.0.9"); err != nil {
		t.Error("the interfaces lack their addresses")
	}
	node.Run(plug)
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}

func TestWhatFailsForWantOfACarrierSaysWhose(t *testing.T) {
	netnstest.Slow(t)
	node, state := testBed(t)
	before := testPicture(node)
	cmd := whole.command(node, state, "prolog", never)
	cmd.Env = append(cmd.Env, "GRESNET_BED_THEN=ip link set far down", "GRESNET_BED_DEADLINE=10s")
	out, err := cmd.CombinedOutput()
	if want := "hca0 (port 1 of 0002:c903:00ab:hca0"; err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "next hop object 7") {
		t.Errorf("the prolog: %v: %s, wanted %q", err, out, want)
	}
	node.Run(plug)
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}

// killedInTraining kills a program at its n-th look at the clock, while links train.
func killedInTraining(t *testing.T, node *netnstest.NS, state, program string, kill int) (killed bool) {
	t.Helper()
	cmd := whole.command(node, state, program, kill)
	cmd.Env = append(cmd.Env, "GRESNET_BED_THEN="+unplug)
	look := func() error { return lookInLease(state, raised) }
	if program == "epilog" {
		node.Run(unplug)
		look = func() error { return onNode(node, raised) }
	}
	ended := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			node.Run(plug)
			if err != nil && cmd.ProcessState.ExitCode() >= 0 {
				t.Fatalf("%s: %v", program, err)
			}
			return err != nil
		case <-time.After(20 * time.Millisecond):
			if look() == nil {
				node.Run(plug)
			}
		}
	}
}

func TestAPrologOrAnEpilogThatIsKilledWhileLinksTrainLosesNothing(t *testing.T) {
	netnstest.Slow(t)
	for _, program := range []string{"prolog", "epilog"} {
		t.Run(program, func(t *testing.T) {
			node, state := testBed(t)
			// The kernel forgets next hop objects with the carrier, and no journal has them yet.
			node.Run("ip nexthop flush")
			before := testPicture(node)
			killEach(t, "the "+program, 1, func(look int) bool {
				if program == "epilog" {
					testRun(t, node, state, "prolog", never)
				}
				killed := killedInTraining(t, node, state, program, look)
				testRun(t, node, state, "epilog", never)
				testSame(t, node, state, before)
				return killed
			})
		})
	}
}
