package fault

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/seed"
)

// edit writes a file again.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// without leaves out the lines that match.
func without(pattern string) func([]byte) []byte {
	return func(text []byte) []byte {
		var left []byte
		for line := range bytes.Lines(text) {
			if !regexp.MustCompile(pattern).Match(line) {
				left = append(left, line...)
			}
		}
		return left
	}
}

// onNode returns what is in the root namespace, without what was configured of it.
func onNode(t *testing.T) string {
	t.Helper()
	return vm.Run(t, "udevadm settle; rdma -j dev | jq -r '.[] | .ifname + \" \" + .node_guid' | sort; ls /sys/class/net | sort")
}

// quarantined returns the names of the HCAs that no job may have.
func quarantined(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(vm.Jq(t, `[.claims[] | select(.quarantined) | .name] | sort | join(" ")`))
}

// survives damages a lease, and holds the epilog to its promise: all devices
// are back, what it could not restore is quarantined, it says so once, and the
// journal that it should have had, put back, restores the rest.
func survives(t *testing.T, before string, damage func()) (out string, code int) {
	t.Helper()
	devices := onNode(t)
	vm.Must(t, "prolog", vm.DamageJob)
	whole, err := os.ReadFile(vm.DamageJournal)
	if err != nil {
		t.Fatal(err)
	}
	damage()
	out, code = vm.ByHand(t, "epilog", vm.DamageJob)
	if now := onNode(t); now != devices {
		t.Errorf("not all is back: %s\nthe epilog: exit %d: %s", now, code, out)
	}
	switch held := quarantined(t); code {
	case 0:
		if held != "" {
			t.Errorf("exit 0, but %s is quarantined: %s", held, out)
		}
		vm.Same(t, before)
		return out, code
	case 2:
		// An interface whose settings are lost is down, and its port a warning of its own.
		said := regexp.MustCompile(`(?m)^.*: warning: port 1 of .*\n`).ReplaceAllString(out, "")
		if held == "" || strings.Count(said, "\n") != 2 || !strings.Contains(said, "hint: ") {
			t.Errorf("exit 2, quarantined: %q\n%s", held, out)
		}
	default:
		t.Errorf("exit %d: %s", code, out)
	}
	// There is no lease any more, and what is in doubt stays so.
	held := quarantined(t)
	vm.Must(t, "epilog", vm.DamageJob)
	if now := quarantined(t); now != held {
		t.Errorf("another epilog changed what is quarantined from %q to %q", held, now)
	}
	vm.Must(t, "prolog", "SLURM_JOB_ID=900061 SLURM_JOB_GPUS=0,1")
	if env := vm.Run(t, "cat /run/gresnet/jobs/900061/env"); !strings.Contains(env, "\nGRESNET_REFUSED=") || !strings.Contains(env, "it is quarantined since job 900060") {
		t.Errorf("a later prolog's lease: %s", env)
	}
	vm.Must(t, "epilog", "SLURM_JOB_ID=900061")
	vm.Run(t, "mkdir -p "+vm.DamageLease)
	if err := os.WriteFile(vm.DamageJournal, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	vm.Must(t, "epilog", vm.DamageJob)
	vm.Same(t, before)
	return out, code
}

func TestALeaseWhoseJournalIsDamagedIsReturned(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	names := vm.HCAs(t)
	ib, roce := names[0], names[len(names)-1]
	before := vm.Picture(t)
	tests := []struct {
		name   string
		change func([]byte) []byte
		code   int
		want   string
	}{
		{"untouched", bytes.Clone, 0, ""},
		{"its last line", func(text []byte) []byte { return text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1] }, 2, "dev is there without an entry"},
		{"half of it", func(text []byte) []byte { return text[:len(text)/2] }, 2, "dev is there without an entry"},
		{"the first line", func(text []byte) []byte { return text[bytes.IndexByte(text, '\n')+1:] }, 2, "its first line does not read"},
		{"all", func([]byte) []byte { return nil }, 2, ib + " is quarantined: its first line does not read"},
		{"all that can be read", func(text []byte) []byte { return bytes.Repeat([]byte("x"), len(text)) }, 2, ib + " is quarantined"},
		{"what is moved", without(`"kind":"(rdma|link)"`), 2, roce + " is quarantined"},
		{"the namespace and the claim", without(`"kind":"(namespace|claim|devices)"`), 2, ib + " is quarantined"},
		{"settings of the last HCA", without(`"kind":"settings".*"port":1.*"name":"roce`), 2, ib + " is quarantined"},
		{"all settings", without(`"kind":"settings"`), 2, "entries are missing"},
		{"access", without(`"kind":"access"`), 2, "entries are missing"},
		{"a line twice", func(text []byte) []byte { return append(text, text[bytes.IndexByte(text, '\n')+1:]...) }, 0, ""},
		{"a kind that nobody knows", func(text []byte) []byte { return reseal(text, `"kind":"access"`, `"kind":"excess"`) }, 2, `unknown kind`},
		{"data of another kind", func(text []byte) []byte { return reseal(text, `"data":{"hca"`, `"data":{"hca":7,"was"`) }, 2, "cannot unmarshal"},
	}
	for i, tt := range tests {
		if i%4 != 2 && vm.Rounds(0, 1) == 0 {
			continue // the short tests have every fourth
		}
		t.Run(tt.name, func(t *testing.T) {
			out, code := survives(t, before, func() { edit(t, vm.DamageJournal, tt.change) })
			if code != tt.code || !regexp.MustCompile(tt.want).MatchString(out) {
				t.Errorf("exit %d, wanted %d and %q:\n%s", code, tt.code, tt.want, out)
			}
		})
	}
}

// reseal replaces something in each line and makes its checksum agree.
func reseal(text []byte, old, new string) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		object := bytes.TrimSuffix(line[9:], []byte{'\n'})
		object = bytes.ReplaceAll(object, []byte(old), []byte(new))
		out = fmt.Appendf(out, "%08x %s\n", crc32.ChecksumIEEE(object), object)
	}
	return out
}

func TestAFlippedBitOfAJournalLosesNoDevice(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	flips, seed := vm.Rounds(2, 25), seed.Value()
	random := rand.New(rand.NewPCG(seed, 0))
	doubts := 0
	for i := range flips {
		var at int
		_, code := survives(t, before, func() {
			edit(t, vm.DamageJournal, func(text []byte) []byte {
				at = random.IntN(len(text) * 8)
				text[at/8] ^= 1 << (at % 8)
				return text
			})
		})
		if code == 2 {
			doubts++
		}
		if t.Failed() {
			t.Fatalf("flip %d, of bit %d; again with GRESNET_SEED=%d", i, at, seed)
		}
	}
	t.Logf("seed %d: %d flips, %d of them with HCAs in doubt", seed, flips, doubts)
}

func TestAReleasedHCAIsTakenAsItIs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	names := vm.HCAs(t)
	roce := names[len(names)-1]
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.DamageJob)
	whole, err := os.ReadFile(vm.DamageJournal)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, vm.DamageJournal, without(`"kind":"access".*`+roce))
	if out, code := vm.ByHand(t, "epilog", vm.DamageJob); code != 2 || !strings.Contains(out, "gresnet release HCA") {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, name := range []string{names[0], roce} {
		if held := quarantined(t); !strings.Contains(held, name) {
			t.Errorf("quarantined: %q, wanted %q", held, name)
		}
		if out, code := vm.Command(t, "gresnet release "+name); code != 0 || out != "" {
			t.Errorf("release: exit %d: %s", code, out)
		}
	}
	if held := quarantined(t); held != "" {
		t.Errorf("still quarantined: %q", held)
	}
	vm.Run(t, "mkdir -p "+vm.DamageLease)
	if err := os.WriteFile(vm.DamageJournal, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	vm.Must(t, "epilog", vm.DamageJob)
	vm.Same(t, before)
}

// withoutInUse returns a picture of the node without the list of HCAs in use, where a quarantined one is not.
func withoutInUse(t *testing.T) string {
	t.Helper()
	inUse, err := vm.InUse()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(vm.Picture(t), inUse)
}

func TestALeaseOfAnotherVersionIsLeftAlone(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.DamageJob)
	held := withoutInUse(t)
	whole, err := os.ReadFile(vm.DamageJournal)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, vm.DamageJournal, func(text []byte) []byte { return reseal(text, `"version":1`, `"version":2`) })
	for range 2 {
		out, code := vm.ByHand(t, "epilog", vm.DamageJob)
		if code != 2 || !strings.Contains(out, "another version: 2") || !strings.Contains(out, "of the version that wrote it") {
			t.Errorf("exit %d: %s", code, out)
		}
	}
	if now := withoutInUse(t); now != held {
		t.Errorf("the epilog changed the node from\n%s\nto\n%s", held, now)
	}
	if inUse, err := vm.InUse(); err != nil || inUse != "" {
		t.Errorf("quarantined HCAs are listed as in use: %q, %v", inUse, err)
	}
	vm.IsRefused(t, 900061, "SLURM_JOB_GPUS=0", "another version")
	if err := os.WriteFile(vm.DamageJournal, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	vm.Must(t, "epilog", vm.DamageJob)
	vm.Same(t, before)
}

// What an entry of the node table may become.
func TestAnEntryOfTheNodeTableThatDoesNotReadCostsOneHCA(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	names := vm.WithGPUs(t)
	const a, b, c = "SLURM_JOB_ID=900062 SLURM_JOB_GPUS=0", "SLURM_JOB_ID=900063 SLURM_JOB_GPUS=1", "SLURM_JOB_ID=900064 SLURM_JOB_GPUS=0"
	before := vm.Picture(t)
	for i, damage := range []string{
		"ln -sfn ../jobs/x $claim", "rm $claim && mkdir -p $claim/x", "ln -sfn ../jobs/900062 $claim", "rm $claim && echo 900062 >$claim",
	} {
		if i%3 != 0 && vm.Rounds(0, 1) == 0 {
			continue // the short tests have every third
		}
		t.Run(damage, func(t *testing.T) {
			vm.Must(t, "prolog", a)
			vm.Run(t, "cd /run/gresnet/claims; claim=$(ls); "+damage)
			if out, code := vm.ByHand(t, "prolog", c); code != 1 || !strings.Contains(out, " does not read") || !strings.Contains(out, "warning: read ") {
				t.Errorf("a prolog that wants what is taken: exit %d: %s", code, out)
			}
			if out, code := vm.ByHand(t, "prolog", b); code != 0 {
				t.Errorf("a prolog that wants another HCA: exit %d: %s", code, out)
			}
			if out, code := vm.ByHand(t, "epilog", b); code != 0 {
				t.Errorf("its epilog: exit %d: %s", code, out)
			}
			if out, code := vm.ByHand(t, "epilog", a); code != 0 {
				t.Errorf("the epilog of the job that has the HCA: exit %d: %s", code, out)
			}
			vm.Same(t, before)
			if held := quarantined(t); held != names[0] {
				t.Errorf("quarantined: %q, wanted %q", held, names[0])
			}
			if out, code := vm.Command(t, "gresnet release "+names[0]); code != 0 {
				t.Errorf("release: exit %d: %s", code, out)
			}
			vm.Must(t, "prolog", a)
			vm.Must(t, "epilog", a)
			vm.Same(t, before)
		})
	}
}

func TestANodeTableOfAnotherVersionStopsProlog(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.DamageJob)
	const layout = "/run/gresnet/version"
	saved, err := os.ReadFile(layout)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, layout, func([]byte) []byte { return []byte("2\n") })
	if out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900065 SLURM_JOB_GPUS=0"); code != 1 || !strings.Contains(out, "state of another version: 2") {
		t.Errorf("prolog: exit %d: %s", code, out)
	}
	devices := vm.Run(t, "rdma dev | wc -l")
	if out, code := vm.ByHand(t, "epilog", vm.DamageJob); code != 2 || !strings.Contains(out, "state of another version: 2") {
		t.Errorf("epilog: exit %d: %s", code, out)
	}
	if now := vm.Run(t, "rdma dev | wc -l"); vm.Mode(t) == "exclusive" && now == devices {
		t.Error("the epilog returned nothing")
	}
	if err := os.WriteFile(layout, saved, 0o644); err != nil {
		t.Fatal(err)
	}
	vm.Must(t, "epilog", vm.DamageJob)
	vm.Same(t, before)
}
