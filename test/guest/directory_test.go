package guest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/test/standin"
)

func TestALeaseThatSomebodyTookApartComesHome(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	tests := []struct{ name, damage string }{
		{"its namespace is unmounted", "umount " + damageLease + "/netns"},
		{"its namespace is another file", "umount " + damageLease + "/netns; echo x >" + damageLease + "/netns"},
		{"its namespace's file is gone", "umount " + damageLease + "/netns; rm " + damageLease + "/netns"},
		{"its device nodes are unmounted", "umount " + damageLease + "/dev"},
		{"its device nodes are gone", "umount " + damageLease + "/dev; rmdir " + damageLease + "/dev"},
		{"env is a directory", "cd " + damageLease + "; rm env; mkdir -p env/x"},
		{"env is a symlink", "cd " + damageLease + "; mv env /tmp/env; ln -s /tmp/env env"},
		{"env is empty", ": >" + damageLease + "/env"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if out, code := survives(t, before, func() { run(t, tt.damage) }); code != 0 || out != "" {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
}

func TestALeaseThatSomebodyDeletedComesHomeAndIsNotTrusted(t *testing.T) {
	anHCAOfEachKind(t)
	names := hcas(t)
	before := picture(t)
	t.Run("but for what is mounted", func(t *testing.T) {
		out, code := survives(t, before, func() { run(t, "rm -rf "+damageLease+" 2>/dev/null || true; ls "+damageLease) })
		if code != 2 || !strings.Contains(out, names[0]+" is quarantined") || !strings.Contains(out, names[len(names)-1]+" is quarantined") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
	t.Run("with what is mounted, while a process keeps the namespace", func(t *testing.T) {
		must(t, "prolog", damageJob)
		run(t, "cp "+damageJournal+" /tmp/journal")
		release := standin.Start(t, inNamespace(damageLease+"/netns"))
		run(t, "umount "+damageLease+"/netns "+damageLease+"/dev; rm -rf "+damageLease)
		out, code := byHand(t, "epilog", damageJob)
		if code != 2 || !strings.Contains(out, "is not in the root namespace") {
			t.Errorf("exit %d: %s", code, out)
		}
		if held := quarantined(t); len(strings.Fields(held)) != 2 {
			t.Errorf("quarantined: %q", held)
		}
		must(t, "epilog", damageJob) // and is not told again
		// The journal, put back, finds them in the namespace that has no name.
		run(t, "mkdir "+damageLease+"; cp /tmp/journal "+damageJournal)
		must(t, "epilog", damageJob)
		release()
		same(t, before)
	})
}

func TestAFullRunUndoesAndRestores(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	run(t, "mkdir -p /run/gresnet; mount -t tmpfs -o size=256k none /run/gresnet")
	t.Cleanup(func() { run(t, "umount /run/gresnet") })
	must(t, "prolog", "SLURM_JOB_ID=900066 SLURM_JOB_GPUS=0") // the files that every run needs are there
	must(t, "epilog", "SLURM_JOB_ID=900066 SLURM_JOB_GPUS=0")
	empty := picture(t)
	pages := 0 // how many the prolog may write
	for ; ; pages++ {
		fill(t, pages)
		out, code := byHand(t, "prolog", damageJob)
		if code == 0 {
			break
		}
		if code != 1 || !strings.Contains(out, "no space left on device") {
			t.Errorf("prolog with %d pages: exit %d: %s", pages, code, out)
		}
		run(t, "rm /run/gresnet/full")
		if same(t, empty); t.Failed() {
			t.Fatalf("with %d pages", pages)
		}
	}
	t.Logf("the prolog needs %d pages", pages)
	fill(t, 0)
	out, code := byHand(t, "epilog", damageJob)
	if code != 0 && code != 2 {
		t.Errorf("epilog: exit %d: %s", code, out)
	}
	if code == 2 && !strings.Contains(out, "no space left on device") {
		t.Errorf("epilog: %s", out)
	}
	t.Logf("an epilog on a full /run: exit %d", code)
	run(t, "rm /run/gresnet/full")
	must(t, "epilog", damageJob)
	if same(t, empty); t.Failed() {
		t.Fatal("after the space came back")
	}
	run(t, "umount /run/gresnet")
	same(t, before)
	run(t, "mount -t tmpfs none /run/gresnet") // for the clean-up
}

// fill leaves that many pages of the state directory's file system free.
func fill(t *testing.T, pages int) {
	t.Helper()
	run(t, fmt.Sprintf("rm -f /run/gresnet/full; cd /run/gresnet; free=$(stat -f -c %%f .); head -c $(((free - %d) * 4096)) /dev/zero >full", pages))
}

func TestWithFewDescriptorsNothingIsLost(t *testing.T) {
	anHCAOfEachKind(t)
	before := picture(t)
	limited := func(program string, files int) (string, int) {
		out, _ := try(fmt.Sprintf("rc=0; ulimit -n %d; %s%s %s/bin/gresnet-%s 2>&1 || rc=$?; echo \"exit $rc\"", files, slurmdEnv, damageJob, repo(), program))
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
		must(t, "epilog", damageJob)
		if same(t, before); t.Failed() {
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
	must(t, "epilog", damageJob)
	same(t, before)
	if _, err := os.Stat(damageLease); err == nil {
		t.Error("the lease is there still")
	}
}
