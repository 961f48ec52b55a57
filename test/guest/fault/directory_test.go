package fault

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

func TestALeaseThatSomebodyTookApartIsReturned(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	tests := []struct{ name, damage string }{
		{"its namespace is unmounted", "umount " + vm.DamageLease + "/netns"},
		{"its namespace is another file", "umount " + vm.DamageLease + "/netns; echo x >" + vm.DamageLease + "/netns"},
		{"its namespace's file is gone", "umount " + vm.DamageLease + "/netns; rm " + vm.DamageLease + "/netns"},
		{"its device nodes are unmounted", "umount " + vm.DamageLease + "/dev"},
		{"its device nodes are gone", "umount " + vm.DamageLease + "/dev; rmdir " + vm.DamageLease + "/dev"},
		{"env is a directory", "cd " + vm.DamageLease + "; rm env; mkdir -p env/x"},
		{"env is a symlink", "cd " + vm.DamageLease + "; mv env /tmp/env; ln -s /tmp/env env"},
		{"env is empty", ": >" + vm.DamageLease + "/env"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if out, code := survives(t, before, func() { vm.Run(t, tt.damage) }); code != 0 || out != "" {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
}

func TestALeaseThatSomebodyDeletedIsReturnedAndIsNotTrusted(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.AnHCAOfEachKind(t)
	names := vm.HCAs(t)
	before := vm.Picture(t)
	t.Run("but for what is mounted", func(t *testing.T) {
		out, code := survives(t, before, func() { vm.Run(t, "rm -rf "+vm.DamageLease+" 2>/dev/null || true; ls "+vm.DamageLease) })
		if code != 2 || !strings.Contains(out, names[0]+" is quarantined") || !strings.Contains(out, names[len(names)-1]+" is quarantined") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
	t.Run("with what is mounted, while a process keeps the namespace", func(t *testing.T) {
		vm.Must(t, "prolog", vm.DamageJob)
		vm.Run(t, "cp "+vm.DamageJournal+" /tmp/journal")
		release := standin.Start(t, vm.InNamespace(vm.DamageLease+"/netns"))
		vm.Run(t, "umount "+vm.DamageLease+"/netns "+vm.DamageLease+"/dev; rm -rf "+vm.DamageLease)
		out, code := vm.ByHand(t, "epilog", vm.DamageJob)
		if code != 2 || !strings.Contains(out, "its lease was removed") {
			t.Errorf("exit %d: %s", code, out)
		}
		if held := quarantined(t); len(strings.Fields(held)) != 2 {
			t.Errorf("quarantined: %q", held)
		}
		vm.Must(t, "epilog", vm.DamageJob) // and is not told again
		// The journal, put back, restores them when the namespace has ended.
		vm.Run(t, "mkdir "+vm.DamageLease+"; cp /tmp/journal "+vm.DamageJournal)
		release()
		vm.Must(t, "epilog", vm.DamageJob)
		vm.Same(t, before)
	})
}

func TestAFullRunUndoesAndRestores(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Run(t, "mkdir -p /run/gresnet; mount -t tmpfs -o size=256k none /run/gresnet")
	t.Cleanup(func() { vm.Run(t, "umount /run/gresnet") })
	vm.Must(t, "prolog", "SLURM_JOB_ID=900066 SLURM_JOB_GPUS=0") // the files that every run needs are there
	vm.Must(t, "epilog", "SLURM_JOB_ID=900066 SLURM_JOB_GPUS=0")
	empty := vm.Picture(t)
	pages := 0 // how many the prolog may write
	for ; ; pages++ {
		fill(t, pages)
		out, code := vm.ByHand(t, "prolog", vm.DamageJob)
		if code == 0 {
			break
		}
		if code != 1 || !strings.Contains(out, "no space left on device") {
			t.Errorf("prolog with %d pages: exit %d: %s", pages, code, out)
		}
		vm.Run(t, "rm /run/gresnet/full")
		if vm.Same(t, empty); t.Failed() {
			t.Fatalf("with %d pages", pages)
		}
	}
	t.Logf("the prolog needs %d pages", pages)
	fill(t, 0)
	out, code := vm.ByHand(t, "epilog", vm.DamageJob)
	if code != 0 && code != 2 {
		t.Errorf("epilog: exit %d: %s", code, out)
	}
	if code == 2 && !strings.Contains(out, "no space left on device") {
		t.Errorf("epilog: %s", out)
	}
	t.Logf("an epilog on a full /run: exit %d", code)
	vm.Run(t, "rm /run/gresnet/full")
	vm.Must(t, "epilog", vm.DamageJob)
	if vm.Same(t, empty); t.Failed() {
		t.Fatal("after the space came back")
	}
	vm.Run(t, "umount /run/gresnet")
	vm.Same(t, before)
	vm.Run(t, "mount -t tmpfs none /run/gresnet") // for the clean-up
}

// fill leaves that many pages of the state directory's file system free.
func fill(t *testing.T, pages int) {
	t.Helper()
	vm.Run(t, fmt.Sprintf("rm -f /run/gresnet/full; cd /run/gresnet; free=$(stat -f -c %%f .); head -c $(((free - %d) * 4096)) /dev/zero >full", pages))
}

func TestWithFewDescriptorsNothingIsLost(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	limited := func(program string, files int) (string, int) {
		out, _ := vm.Try(fmt.Sprintf("rc=0; ulimit -n %d; %s%s %s/bin/gresnet-%s 2>&1 || rc=$?; echo \"exit $rc\"", files, vm.SlurmdEnv, vm.DamageJob, vm.Repo(), program))
		text, code, ok := strings.Cut(out, "exit ")
		if !ok {
			t.Fatalf("%s with %d descriptors: %s", program, files, out)
		}
		return text, int(code[0] - '0')
	}
	step := 3
	if os.Getenv("GRESNET_TEST") == "long" {
		step = 1
	}
	const runtime = 6 // with fewer Go's own does not start: a file, epoll, an eventfd
	few := runtime
	for ; few < 64; few += step {
		out, code := limited("prolog", few)
		if code == 0 {
			break
		}
		// What the prolog could not undo with so few, the epilog undoes with enough.
		if (code != 1 && code != 2) || !strings.Contains(out, "too many open files") {
			t.Errorf("prolog with %d descriptors: exit %d: %s", few, code, out)
		}
		vm.Must(t, "epilog", vm.DamageJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("with %d descriptors", few)
		}
	}
	t.Logf("the prolog needs %d descriptors", few)
	for files := runtime; files < 64; files += step {
		out, code := limited("epilog", files)
		if code == 0 {
			t.Logf("the epilog needs %d descriptors", files)
			break
		}
		if code == 2 && !strings.Contains(out, "too many open files") {
			t.Errorf("epilog with %d descriptors: exit %d: %s", files, code, out)
		}
	}
	vm.Must(t, "epilog", vm.DamageJob)
	vm.Same(t, before)
	if _, err := os.Stat(vm.DamageLease); err == nil {
		t.Error("the lease is there still")
	}
}
