package state_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/base/job"
	"gresnet/lib/state"
	"gresnet/test/seed"
)

// asCaller has this test's program print who started it, and end.
const asCaller = "GRESNET_TEST_CALLER"

func TestMain(m *testing.M) {
	if os.Getenv(asCaller) != "" {
		fmt.Println(state.FindCaller())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestARecordReadsAsItWasLeft(t *testing.T) {
	callers := []state.Caller{{Slurmd: true}, {Slurmd: true, Script: "/etc/slurm/prolog.d/50-site"}, {Other: "bash"}}
	whys := []string{"", "read gresnet.toml: line 3: unknown key [GN001]", "a why=b exit=0 c"}
	for range 200 {
		s := state.Record{Exit: seed.IntN(3), Job: 1 + uint32(seed.IntN(1<<31)), Run: job.Run{Restart: uint32(seed.IntN(9))}, Caller: callers[seed.IntN(3)], Why: whys[seed.IntN(3)]}
		if seed.IntN(2) == 0 {
			s.Run.SLUID = "s8KQ3V7Z1"
		}
		d := state.Dir(filepath.Join(t.TempDir(), "run"))
		if err := d.EndProlog(s); err != nil {
			t.Fatal(err)
		}
		for _, got := range []*state.Record{d.ReadRecord(s.Job), d.ReadRecords().Prolog} {
			if got == nil || got.At.IsZero() {
				t.Fatalf("%s reads as %v", s, got)
			}
			want := s
			want.At = got.At
			if *got != want {
				t.Fatalf("%s reads as %+v, wanted %+v", s, *got, want)
			}
		}
	}
}

func TestARecordSaysThatTheJobHasALease(t *testing.T) {
	d := state.Dir(t.TempDir())
	if err := os.MkdirAll(string(d.Lease(4711)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.EndProlog(state.Record{Job: 4711}); err != nil || !d.ReadRecord(4711).Lease {
		t.Errorf("%v, %+v", err, d.ReadRecord(4711))
	}
}

func TestAPrologThatIsKilledLeavesNoRecordOfAnEarlierRun(t *testing.T) {
	d := state.Dir(t.TempDir())
	if err := d.EndProlog(state.Record{Job: 4711}); err != nil {
		t.Fatal(err)
	}
	d.BeginProlog(4711)
	if got := d.ReadRecord(4711); got != nil {
		t.Errorf("there is %s", got)
	}
}

func TestARecordIsLeftOnAFullFileSystemWithoutItsReason(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	d := state.Dir(dir)
	if err := d.MakeRecords(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the file system is not full")
	}
	s := state.Record{Exit: 1, Job: 4711, Caller: state.Caller{Slurmd: true}, Why: strings.Repeat("long ", 60)}
	if err := d.EndProlog(s); err != nil {
		t.Fatal(err)
	}
	if got := d.ReadRecord(4711); got == nil || got.Exit != 1 || got.Job != 4711 {
		t.Errorf("the record is %+v", got)
	}
}

func TestTheRecordOfAnEpilogThatFailedOutlastsOthersThatDidNot(t *testing.T) {
	d := state.Dir(t.TempDir())
	for _, s := range []state.Record{{Exit: 2, Job: 7}, {Job: 8}} {
		if err := d.EndEpilog(s); err != nil {
			t.Fatal(err)
		}
	}
	if seen := d.ReadRecords(); seen.Failed == nil || seen.Failed.Job != 7 || seen.Epilog == nil || seen.Epilog.Job != 8 {
		t.Errorf("the failed one is %+v, the last one %+v", seen.Failed, seen.Epilog)
	}
}

func TestUsersDoNotReachRecords(t *testing.T) {
	d := state.Dir(filepath.Join(t.TempDir(), "run"))
	if err := d.EndEpilog(state.Record{Job: 4711}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.Records()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func expect(t *testing.T, d state.Dir, gres ...string) (text string, since time.Time) {
	t.Helper()
	if err := d.Expect(gres, time.Now()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(d.Expected())
	if err != nil {
		t.Fatal(err)
	}
	if text, err = os.Readlink(d.Expected()); err != nil {
		t.Fatal(err)
	}
	return text, info.ModTime()
}

func TestAListThatChangesKeepsTheTimeSinceWhenJobsLeaveRecords(t *testing.T) {
	d := state.Dir(t.TempDir())
	long := time.Unix(1, 0)
	if err := d.Expect([]string{"nic"}, long); err != nil {
		t.Fatal(err)
	}
	for _, gres := range [][]string{{"nic"}, {"nic", "gpu"}, {"gpu"}, {state.EveryJob}, {"nic"}} {
		got, since := expect(t, d, gres...)
		if want := strings.Join(gres, ","); got != want || !since.Equal(long) {
			t.Errorf("%s since %v, wanted %s since %v", got, since, want, long)
		}
	}
}

func TestAListThatThePluginCannotReadWholeStandsForAllJobs(t *testing.T) {
	d := state.Dir(t.TempDir())
	var gres []string
	for n := range 200 {
		gres = append(gres, fmt.Sprintf("gres%d", n))
		got, _ := expect(t, d, gres...)
		if got == state.EveryJob {
			return
		}
		if len(got) > 1023 {
			t.Fatalf("it has %d bytes", len(got))
		}
	}
	t.Error("it never did")
}

func TestTheFirstJobIsHeldToItsRecordByWhoeverKnewOfItFirst(t *testing.T) {
	lasting := filepath.Join(t.TempDir(), "expected")
	began := time.Now().Add(-time.Minute).Truncate(time.Second)
	if got := state.ExpectedSince(lasting, began); !got.Equal(began) {
		t.Errorf("without setup: since %v, the job began at %v", got, began)
	}
	setUp := began.Add(-time.Hour)
	if err := state.ExpectForGood(lasting, []string{"nic"}, setUp); err != nil {
		t.Fatal(err)
	}
	for _, start := range []time.Time{began, {}} {
		if got := state.ExpectedSince(lasting, start); !got.Equal(setUp) {
			t.Errorf("a job of %v: since %v, setup was at %v", start, got, setUp)
		}
	}
	d := state.Dir(t.TempDir())
	if err := state.ForgetExpected(lasting, d.Expected()); err != nil {
		t.Fatal(err)
	}
	if got := state.ExpectedSince(lasting, time.Time{}); got.Before(began) {
		t.Errorf("after undo: since %v", got)
	}
}

func TestTheCallerIsSlurmdOrItsScriptOrAnother(t *testing.T) {
	dir := t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(at(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("slurmd", string(shell)) // the kernel names a process after the file
	write("direct", "#!/bin/sh\nexec "+self+"\n")
	write("site", "#!/bin/sh\n"+self+"\nexit 0\n")
	write("piped", "#!/bin/bash -e\n"+self+" | tee "+at("out")+"\n")
	write("lib.sh", self+"\n")
	write("sources", "#!/bin/sh\n. "+at("lib.sh")+"\n:\n")
	write("parts", "#!/usr/bin/env bash\nfor f in "+at("site")+"; do $f || exit; done\n")
	for _, c := range []struct{ by, script, want string }{
		{"slurmd", "direct", "slurmd"},
		{"slurmd", "site", "slurmd:" + at("site")},
		{"slurmd", "piped", "slurmd:" + at("piped")},
		{"slurmd", "sources", "slurmd:" + at("sources")},
		{"slurmd", "parts", "slurmd:" + at("parts")},
		{"/bin/sh", "direct", "other:"},
	} {
		program := c.by
		if program == "slurmd" {
			program = at(program)
		}
		cmd := exec.Command(program, "-c", at(c.script)+"; exit $?")
		cmd.Env = append(os.Environ(), asCaller+"=1")
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want && (c.want != "other:" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s by %s: %s, %v, wanted %s", c.script, c.by, got, err, c.want)
		}
	}
}
