package lease

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/test/netnstest"
)

// testHooks returns the site's programs of a test.
func testHooks() (h config.Hooks) {
	if text := os.Getenv("GRESNET_BED_HOOKS"); text != "" {
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			panic(err)
		}
	}
	return h
}

// hookBed is a node whose site has programs, in a folder that root trusts.
type hookBed struct {
	t     *testing.T
	node  *netnstest.NS
	state string
	dir   string
	hooks config.Hooks
	lease testLease
}

func newHookBed(t *testing.T, ready, leave string) *hookBed {
	t.Helper()
	b := &hookBed{t: t, lease: whole, hooks: config.Hooks{Timeout: 20 * time.Second, Fault: config.FaultJob}}
	b.node, b.state = apartBed(t)
	b.dir = netnstest.RootsFolder(t)
	b.hooks.Ready, b.hooks.Leave = b.script("ready", ready), b.script("leave", leave)
	return b
}

func (b *hookBed) script(name, text string) string {
	b.t.Helper()
	if text == "" {
		return ""
	}
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh -e\nd="+b.dir+" s="+b.state+"\n"+text+"\n"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// runs runs a program, and returns what it says of more than steps.
func (b *hookBed) runs(program string, kill int) (out string, err error) {
	b.t.Helper()
	text, err := json.Marshal(b.hooks)
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := b.lease.command(b.node, b.state, program, kill)
	cmd.Env = append(cmd.Env, "GRESNET_BED_HOOKS="+string(text), "GRESNET_BED_NOTICES=1")
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func (b *hookBed) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.dir, name))
	return string(text)
}

// counts tells whether the lease is complete.
func (b *hookBed) counts() bool {
	_, err := os.Stat(b.state + "/jobs/4711/env")
	return err == nil
}

const tellHook = "echo $GRESNET_HOOK $SLURM_JOB_ID $SLURM_JOB_UID $GRESNET_HCAS >>$d/told; readlink /proc/self/ns/net >>$d/net; " +
	"ip -o link show hca0 >/dev/null; [ -d $s/jobs/4711 ] && ! [ -e $s/jobs/4711/env ]"

func TestASitesProgramsRunInTheJobBeforeTheLeaseCountsAndBeforeItIsUndone(t *testing.T) {
	b := newHookBed(t, tellHook+"; echo all is well; ip link add mine type veth peer name theirs", tellHook+"; ip link show mine >/dev/null")
	before := testPicture(b.node)
	out, err := b.runs("prolog", never)
	if err != nil || !strings.Contains(out, b.hooks.Ready+": all is well") {
		t.Fatalf("the prolog: %v: %s", err, out)
	}
	inside, err := exec.Command("nsenter", "--net="+b.state+"/jobs/4711/netns", "readlink", "/proc/self/ns/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	out, err = b.runs("epilog", never)
	if err != nil {
		t.Fatalf("the epilog: %v: %s", err, out)
	}
	if told, want := b.read("told"), "ready 4711 1000 hca0,hca1\nleave 4711 1000 hca0,hca1\n"; told != want {
		t.Errorf("they were told %q, wanted %q", told, want)
	}
	if nets := strings.Fields(b.read("net")); !slices.Equal(nets, []string{strings.TrimSpace(string(inside)), strings.TrimSpace(string(inside))}) {
		t.Errorf("they ran in %q, the job is in %s", nets, inside)
	}
	testSame(t, b.node, b.state, before)
}

func TestWhateverASitesProgramDoesTheNodeComesBack(t *testing.T) {
	netnstest.Slow(t)
	const stays = "setsid sh -c '(exec sleep infinity) >/dev/null 2>&1 &' </dev/null >/dev/null 2>&1; "
	for name, c := range map[string]struct {
		ready, leave string
		timeout      time.Duration
		change       func(*hookBed)
		prolog       string // what the prolog says where it fails
		epilog       string // what the epilog warns of
	}{
		"ready fails":          {ready: "echo no loopback >&2; exit 3", prolog: `exit status 3: it says "no loopback"`},
		"ready hangs":          {ready: stays + "sleep infinity", timeout: time.Second, prolog: "no answer in time"},
		"ready leaves a child": {ready: stays, leave: "true"},
		"leave fails":          {leave: "exit 4", epilog: "leave: exit status 4"},
		"leave hangs":          {leave: "trap '' TERM; " + stays + "sleep infinity", timeout: time.Second, epilog: "leave: no answer in time"},
		"leave leaves a child": {leave: stays},
		"leave prints a lot":   {leave: "yes | head -c 3000000"},
		"leave is gone":        {leave: "true", change: func(b *hookBed) { os.Remove(b.hooks.Leave) }, epilog: "there is no such program"},
		"a user can write it":  {leave: "true", change: func(b *hookBed) { os.Chmod(b.hooks.Leave, 0o777) }, epilog: "others than root may write it"},
		"it takes the link":    {leave: "ip link set hca0 down; ip link set hca0 name odd0; ip addr flush dev hca1"},
	} {
		for _, fault := range []string{config.FaultJob, config.FaultNode} {
			if c.prolog+c.epilog == "" && fault == config.FaultNode {
				continue // nothing fails
			}
			b := newHookBed(t, c.ready, c.leave)
			b.hooks.Fault = fault
			if c.timeout > 0 {
				b.hooks.Timeout = c.timeout
			}
			before := testPicture(b.node)
			out, err := b.runs("prolog", never)
			if (err != nil) != (c.prolog != "") || !strings.Contains(out, c.prolog) {
				t.Errorf("%s, %s: the prolog: %v: %s", name, fault, err, out)
			}
			if b.counts() != (c.prolog == "") {
				t.Errorf("%s, %s: the lease counts: %v", name, fault, b.counts())
			}
			if c.change != nil {
				c.change(b)
			}
			out, err = b.runs("epilog", never)
			if fails := c.epilog != "" && fault == config.FaultNode; (err != nil) != fails || !strings.Contains(out, c.epilog) || strings.Contains(out, "warning") != (c.epilog != "") {
				t.Errorf("%s, %s: the epilog: %v: %s", name, fault, err, out)
			}
			testSame(t, b.node, b.state, before)
		}
	}
}

func TestALeaseWithSitesProgramsThatIsKilledAnywhereIsUndone(t *testing.T) {
	netnstest.Slow(t)
	b := newHookBed(t, "echo ready >>$d/told", "echo leave >>$d/told")
	b.lease.hcas = "hca1"
	before := testPicture(b.node)
	for _, program := range []string{"prolog", "epilog"} {
		killEach(t, "the "+program, 1, func(look int) bool {
			os.Remove(b.dir + "/told")
			if program == "epilog" {
				if out, err := b.runs("prolog", never); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			_, killed := b.runs(program, look)
			if out, err := b.runs("epilog", never); err != nil {
				t.Fatalf("%s %d: the epilog: %v: %s", program, look, err, out)
			}
			testSame(t, b.node, b.state, before)
			// Who was told that a lease begins is told that it ends.
			if told := b.read("told"); strings.Contains(told, "ready") && !strings.HasSuffix(told, "leave\n") {
				t.Errorf("%s %d: the site was told %q", program, look, told)
			}
			return killed != nil
		})
	}
}
