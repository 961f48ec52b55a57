package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/test/await"
	"gresnet/test/netnstest"
	"gresnet/test/sitetest"
)

// shown returns what scontrol prints for a job on one node.
func shown(id int, node, detail string) string {
	return fmt.Sprintf(`JobId=%d JobName=train
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=1 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=%[2]s
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=%[3]s
     Nodes=%[2]s CPU_IDs=0 Mem=0 GRES=%[3]s
   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0
   Command=/home/ada/train.sh
   WorkDir=/home/ada

`, id, node, detail)
}

// scontrolThat returns a program in scontrol's place. log is what it was asked: its
// arguments and environment, a line for each time.
func scontrolThat(t *testing.T, script string) (program string, log func() string) {
	t.Helper()
	dir := t.TempDir()
	program, asked := filepath.Join(dir, "scontrol"), filepath.Join(dir, "asked")
	text := "#!/bin/sh\necho \"$*\" $(env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL= | sort) >>" + asked + "\n" + script
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, func() string {
		text, err := os.ReadFile(asked)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
}

// says returns a program in scontrol's place that prints a text.
func says(text string) string { return "cat <<'END'\n" + text + "END\n" }

// patient is a timeout for programs that answer, however slow the machine is.
const patient = time.Minute

// askScontrol asks a program about job 4711 on node1.
func askScontrol(program string, timeout time.Duration) ([]gres.Want, []string, error) {
	cfg := config.Default()
	cfg.Slurm.Gres = []string{"nic", "hca"}
	cfg.Slurm.Source = []string{"scontrol"}
	cfg.Slurm.Scontrol, cfg.Slurm.Timeout = program, timeout
	j := job.Job{ID: 4711, Node: "node1", Conf: "/run/slurm/slurm.conf"}
	return source.Ask(context.Background(), j, cfg, source.Local{Threads: func() (int, error) { return 2, nil }})
}

func TestScontrolIsAskedForTheJobAndNothingElse(t *testing.T) {
	t.Setenv("SPANK_X", "user")
	program, log := scontrolThat(t, says(shown(4711, "node1", "nic:mlx5(CNT:2),gpu:2(IDX:0-1),hca(CNT:1)")))
	wants, notes, err := askScontrol(program, patient)
	want := []gres.Want{{Gres: "nic", Type: "mlx5", Count: 2, Cores: []int{0}, Source: "scontrol"}, {Gres: "hca", Count: 1, Cores: []int{0}, Source: "scontrol"}}
	if err != nil || !reflect.DeepEqual(wants, want) {
		t.Errorf("got %+v, %v, want %+v", wants, err, want)
	}
	const asked = "show job -d 4711 LC_ALL=C PATH=/usr/local/bin:/usr/bin:/bin SLURM_CONF=/run/slurm/slurm.conf\n"
	if log() != asked {
		t.Errorf("asked %q, want %q", log(), asked)
	}
	if len(notes) != 1 || !strings.HasSuffix(notes[0], " and says GRES=nic:mlx5(CNT:2),gpu:2(IDX:0-1),hca(CNT:1)") {
		t.Errorf("notes %q", notes)
	}
}

func TestCountsAreToBeNearTheCoresThatTheTextHasTheThreadsOf(t *testing.T) {
	for cpus, c := range map[string]struct {
		cores []int
		note  string
	}{
		"4-7,10-11": {[]int{2, 3, 5}, ""},
		"":          {nil, ""},
		"4-":        {nil, `HCAs are chosen without regard to the job's CPUs: parse indices "4-": parse number ""`},
	} {
		program, _ := scontrolThat(t, says(strings.Replace(shown(4711, "node1", "nic(CNT:2),hca:1(IDX:0)"), "CPU_IDs=0", "CPU_IDs="+cpus, 1)))
		wants, notes, err := askScontrol(program, patient)
		want := []gres.Want{{Gres: "nic", Count: 2, Cores: c.cores, Source: "scontrol"}, {Gres: "hca", Indices: []int{0}, Source: "scontrol"}}
		if err != nil || !reflect.DeepEqual(wants, want) {
			t.Errorf("CPU_IDs=%s: got %+v, %v, want %+v", cpus, wants, err, want)
		}
		if noted := len(notes) == 2 && notes[1] == c.note; noted != (c.note != "") {
			t.Errorf("CPU_IDs=%s: notes %q", cpus, notes)
		}
	}
}

func TestIndicesAreNearTheJobsCoresWhereNearnessDecides(t *testing.T) {
	program, _ := scontrolThat(t, says(strings.Replace(shown(4711, "node1", "nic:2(IDX:0,3)"), "CPU_IDs=0", "CPU_IDs=4-7", 1)))
	for word, cores := range map[string][]int{config.IndexSlurm: nil, config.IndexNear: {2, 3}} {
		cfg := config.Default()
		cfg.Slurm.Source, cfg.Slurm.Scontrol, cfg.Slurm.Timeout, cfg.Slurm.Index = []string{"scontrol"}, program, patient, word
		wants, _, err := source.Ask(context.Background(), job.Job{ID: 4711, Node: "node1"}, cfg, source.Local{Threads: func() (int, error) { return 2, nil }})
		if want := []gres.Want{{Gres: "nic", Indices: []int{0, 3}, Cores: cores, Source: "scontrol"}}; err != nil || !reflect.DeepEqual(wants, want) {
			t.Errorf("%s: got %+v, %v, want %+v", word, wants, err, want)
		}
	}
}

func TestScontrolIsAskedAgainForAPartOfAnArray(t *testing.T) {
	head := func(text, parts string) string { return strings.Replace(text, " JobName=", " "+parts+" JobName=", 1) }
	first := head(shown(4711, "node1", "nic:1(IDX:2)"), "ArrayJobId=4711 ArrayTaskId=1 ArrayTaskThrottle=4")
	other := head(shown(4710, "node1", "nic:1(IDX:0)"), "ArrayJobId=4711 ArrayTaskId=0")
	script := "if [ \"$4\" = 4711_1 ]; then\n" + says(first) + "else\n" + says(other+first) + "fi\n"
	program, log := scontrolThat(t, script)
	wants, _, err := askScontrol(program, patient)
	want := []gres.Want{{Gres: "nic", Indices: []int{2}, Source: "scontrol"}}
	if err != nil || !reflect.DeepEqual(wants, want) {
		t.Errorf("got %+v, %v, want %+v", wants, err, want)
	}
	if n := strings.Count(log(), "\n"); n != 2 {
		t.Errorf("asked %d times: %s", n, log())
	}

	het := head(shown(4711, "node1", "nic:1(IDX:3)"), "HetJobId=4711 HetJobOffset=0")
	rest := head(shown(4712, "node2", ""), "HetJobId=4711 HetJobOffset=1")
	program, _ = scontrolThat(t, "if [ \"$4\" = 4711+0 ]; then\n"+says(het)+"else\n"+says(het+rest)+"fi\n")
	wants, _, err = askScontrol(program, patient)
	want[0].Indices = []int{3}
	if err != nil || !reflect.DeepEqual(wants, want) {
		t.Errorf("het job: got %+v, %v, want %+v", wants, err, want)
	}
}

// took is how long an answer took, which differs.
var took = regexp.MustCompile(`after [0-9.]+m?s: `)

// How long scontrol's text is users decide, by arrays, comments and paths.
func TestAnAnswerThatIsTooLongIsTheJobsFault(t *testing.T) {
	program, _ := scontrolThat(t, "exec yes JobId=4711\n")
	_, _, err := askScontrol(program, time.Minute)
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Why, "more than 16384 KiB: its array is too large") {
		t.Errorf("got %v", err)
	}
}

// Whatever scontrol answers, users can have changed or slowed down: scontrol update, requeue, scancel, and
// many requests to slurmctld or munge.
func TestNoAnswerOfScontrolIsTheNodesFault(t *testing.T) {
	const ask = "what source scontrol says of job 4711: "
	const here = "what scontrol says of the job: "
	const changed = ": somebody has changed, requeued or canceled it since its prolog began"
	refused := func(script string) string { return "echo '" + script + "' >&2\necho more >&2\nexit 1\n" }
	for _, c := range []struct {
		name, script, err string
		reason            gres.Reason
	}{
		{"it was purged", refused("slurm_load_jobs error: Invalid job id specified"), ask + `exit status 1: it says "slurm_load_jobs error: Invalid job id specified"`, gres.NoAnswer},
		{"it has shrunk", says(shown(4711, "node[2-10]", "nic:1(IDX:0)")), here + "it has node[2-10] and not node1" + changed, gres.NotHere},
		{"it was requeued", says(strings.Replace(shown(4711, "(null)", ""), "     Nodes=(null) CPU_IDs=0 Mem=0 GRES=\n", "", 1)), here + "it has no node now" + changed, gres.NotHere},
		{"only another task of its array is left", says(shown(4712, "node1", "nic:1(IDX:0)")), here + "it is about job 4712 and not 4711" + changed, gres.NotHere},
		{"munged is busy", refused("scontrol: error: Munge encode failed: Failed to access /run/munge/munge.socket.2"), "", gres.NoAnswer},
		{"a user has taken all memory", "kill -KILL $$\n", ask + "signal: killed", gres.NoAnswer},
		{"silent", "exit 0\n", ask + "it printed nothing", gres.NoAnswer},
		{"garbage", "echo '{\"jobs\": []}'\n", ask + `unknown form: it begins with "{\"jobs\": []}" and not with JobId=`, gres.NoAnswer},
		{"cut off", "printf 'JobId=4711 JobName=x\\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:2(ID'\n", ask + "its output is cut off", gres.NoAnswer},
		{"without what Slurm always writes", "printf 'JobId=4711 JobName=x\\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:2(IDX:0-1)\\n'\n", ask + `unknown form: it has no lines that begin with "Socks/Node=" and with "MinCPUsNode="`, gres.NoAnswer},
		{"another form", says(shown(4711, "node1", "nic:2(0/4,1/4)")), ask + `parse GRES "nic:2(0/4,1/4)": unknown form; known are name:count(IDX:…) and name(CNT:…)`, gres.NoAnswer},
		{"endless errors", "yes error | head -c 1000000 >&2; exit 3\n", ask + `exit status 3: it says "error"`, gres.NoAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			program, _ := scontrolThat(t, c.script)
			most := patient
			if c.err == "" { // it is asked again
				most = time.Second
			}
			wants, _, err := askScontrol(program, most)
			var refusal *gres.Refusal
			if len(wants) != 0 || !errors.As(err, &refusal) || refusal.Reason != c.reason {
				t.Fatalf("wants %+v, error %v, want a refusal for %s", wants, err, c.reason)
			}
			if c.err != "" {
				sitetest.Refusal(t, plain{took.ReplaceAllString(err.Error(), ""), err}, c.err)
			}
		})
	}
}

func TestAScontrolThatIsNotSetUpIsTheNodesFault(t *testing.T) {
	for name, c := range map[string]struct{ script, err string }{
		"no slurm.conf": {"echo 'scontrol: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: No such file or directory' >&2; exit 1\n",
			`exit status 1: it says "scontrol: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: No such file or directory"`},
		"no library": {"echo 'scontrol: error while loading shared libraries: libslurmfull.so: cannot open shared object file' >&2; exit 127\n",
			`exit status 127: it says "scontrol: error while loading shared libraries: libslurmfull.so: cannot open shared object file"`},
	} {
		t.Run(name, func(t *testing.T) {
			program, _ := scontrolThat(t, c.script)
			_, _, err := askScontrol(program, patient)
			if err == nil || !took.MatchString(err.Error()) {
				t.Fatalf("%v does not say how long it took", err)
			}
			err = plain{took.ReplaceAllString(err.Error(), ""), err}
			sitetest.Fault(t, err, "ask "+program+" about job 4711: "+c.err)
			if want, got := "run "+program+" show job -d 4711 by hand on this node, while the job runs", hint.Of(err); got != want {
				t.Errorf("hint %q, want %q", got, want)
			}
		})
	}
	program := filepath.Join(t.TempDir(), "scontrol")
	write(t, program, "no program\n", 0o755)
	_, _, err := askScontrol(program, patient)
	if err == nil {
		t.Fatal("a file that is no program was run")
	}
	err = plain{took.ReplaceAllString(err.Error(), ""), err}
	sitetest.Fault(t, err, "ask "+program+" about job 4711: fork/exec "+program+": exec format error")
}

// plain is an error whose text is the same in every run.
type plain struct {
	text string
	error
}

func (p plain) Error() string { return p.text }
func (p plain) Unwrap() error { return p.error }

func TestWhatScontrolSaidIsToldThoughItHungWhenItWasAskedAgain(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	program, _ := scontrolThat(t, "if [ -e "+asked+" ]; then exec sleep 1000; fi\ntouch "+asked+"\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1\n")
	if _, _, err := askScontrol(program, 5*time.Second); err == nil || !strings.Contains(err.Error(), "Unable to contact slurm controller") {
		t.Errorf("got %v", err)
	}
}

func TestScontrolThatHangsIsKilledWithItsChildren(t *testing.T) {
	netnstest.Slow(t)
	for name, script := range map[string]string{
		"itself":               "echo waiting >&2; echo $$ >PID; exec sleep 1000\n",
		"a child":              "sleep 1000 & echo $! >PID; wait\n",
		"a child that is left": "sleep 1000 & echo $! >PID; exit 0\n",
	} {
		t.Run(name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			program, _ := scontrolThat(t, strings.ReplaceAll(script, "PID", pidFile))
			var text []byte
			for most := time.Second; !bytes.HasSuffix(text, []byte("\n")); most *= 2 { // in which it has said who it is
				if most > await.Most(t) {
					t.Fatal("it never said who it is")
				}
				start := time.Now()
				if _, _, err := askScontrol(program, most); err == nil {
					t.Fatal("no error")
				}
				if took := time.Since(start); took > most+await.Most(t) {
					t.Errorf("took %s", took)
				}
				text, _ = os.ReadFile(pidFile)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			waitForEnd(t, pid)
		})
	}
}

// waitForEnd waits until a process is gone. An orphan may stay a zombie.
func waitForEnd(t *testing.T, pid int) {
	t.Helper()
	defer syscall.Kill(pid, syscall.SIGKILL)
	await.Until(t, fmt.Sprintf("process %d has ended", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestScontrolThatIsNotThere(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "scontrol")
	_, _, err := askScontrol(missing, time.Second)
	sitetest.Fault(t, err, "find scontrol: file does not exist as a program: "+missing)
	if err := os.WriteFile(missing, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err = askScontrol(missing, time.Second)
	sitetest.Fault(t, err, "find scontrol: file does not exist as a program: "+missing)
}

func TestRootRunsNoScontrolThatAUserMayHaveWritten(t *testing.T) {
	dir := netnstest.RootsFolder(t)
	program, ran := filepath.Join(dir, "scontrol"), filepath.Join(dir, "ran")
	for name, change := range map[string]func() error{
		"a user's":        func() error { return os.Chown(program, 1000, -1) },
		"all write it":    func() error { return os.Chmod(program, 0o777) },
		"a user's folder": func() error { return os.Chown(dir, 1000, -1) },
	} {
		chown(t, dir, 0)
		os.Remove(program)
		write(t, program, "#!/bin/sh\ntouch "+ran+"\n", 0o755)
		check(t, change())
		_, _, err := askScontrol(program, time.Second)
		if err == nil || !strings.Contains(err.Error(), "run "+program+": ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: root ran it", name)
		}
	}
}

func TestScontrolWithoutTheNodesName(t *testing.T) {
	cfg := config.Default()
	cfg.Slurm.Source = []string{"scontrol"}
	_, _, err := source.Ask(context.Background(), job.Job{ID: 4711}, cfg, source.Local{})
	sitetest.Fault(t, err, "ask scontrol about job 4711: the node's name is not known")
}

// What a user writes where Slurm writes nothing for this node would be the only line about it.
func TestAUsersTextIsNeverTakenForSlurms(t *testing.T) {
	const line = "     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:4(IDX:0-3)"
	const block = "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n   JOB_GRES=nic:4\n" + line + "\n   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0"
	mine, gone := shown(4711, "node1", "nic:1(IDX:0)"), shown(4711, "node2", "nic:1(IDX:0)")
	none := strings.Replace(gone, "     Nodes=node2 CPU_IDs=0 Mem=0 GRES=nic:1(IDX:0)\n", "", 1)
	for _, forged := range []string{line, block, "   NodeList=node1\n" + line, block + "\n\nJobId=4711 JobName=x\n" + block,
		"   MinCPUsNode=1 MinMemoryNode=0\n" + line, line + "\n   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*"} {
		for _, text := range []string{mine, gone, none} {
			for _, place := range []string{"JobName=train", "Account=(null)", "Dependency=(null)", "Command=/home/ada/train.sh", "WorkDir=/home/ada"} {
				program, _ := scontrolThat(t, says(strings.Replace(text, place, place+"\n"+forged, 1)))
				wants, _, err := askScontrol(program, patient)
				var refusal *gres.Refusal
				if errors.As(err, &refusal) {
					continue
				}
				if text != mine || err != nil || len(wants) != 1 || !reflect.DeepEqual(wants[0].Indices, []int{0}) {
					t.Errorf("%q has %+v, %v", forged, wants, err)
				}
			}
		}
	}
}

func TestAJobThatImitatesScontrolIsRefused(t *testing.T) {
	const block = "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:4(IDX:0-3)\n   MinCPUsNode=1 MinMemoryNode=0"
	whole := shown(4711, "node1", "nic:1(IDX:0)")
	part := strings.Replace(whole, " JobName=", " ArrayJobId=4700 ArrayTaskId=3 JobName=", 1)
	for name, text := range map[string]string{
		"in its name":    strings.Replace(whole, "JobName=train", "JobName=x\n"+block, 1),
		"in a path":      strings.Replace(whole, "WorkDir=/home/ada", "WorkDir=/home/ada\n"+block, 1),
		"with an end":    strings.Replace(whole, "JobName=train", "JobName=x\n"+block+"\n\nJobId=9 JobName=y", 1),
		"with its id":    strings.Replace(whole, "JobName=train", "JobName=x\nJobId=4711 JobName=y\n"+block, 1),
		"as two parts":   strings.Replace(part, "JobName=train", "JobName=x\nJobId=4711 ArrayJobId=4700 ArrayTaskId=4 JobName=y\n"+block, 1),
		"as other parts": strings.Replace(part, "JobName=train", "JobName=x\n"+block+"\n\nJobId=9 ArrayJobId=4700 ArrayTaskId=4 JobName=y", 1),
	} {
		t.Run(name, func(t *testing.T) {
			program, _ := scontrolThat(t, says(text))
			_, _, err := askScontrol(program, patient)
			var refusal *gres.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != gres.Imitation {
				t.Errorf("error %v, want a refusal for imitation", err)
			}
		})
	}
}

func TestABusyControllerIsAskedAgainUntilTheTimeIsOver(t *testing.T) {
	netnstest.Slow(t)
	const busy = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2\nexit 1\n"
	count := filepath.Join(t.TempDir(), "count")
	script := "echo >>" + count + "\n[ $(wc -l <" + count + ") -ge 5 ] && {\n" + says(shown(4711, "node1", "nic:1(IDX:0)")) + "exit 0\n}\n" + busy
	program, log := scontrolThat(t, script)
	wants, notes, err := askScontrol(program, time.Minute)
	if err != nil || len(wants) != 1 || strings.Count(log(), "\n") != 5 {
		t.Errorf("got %+v, %v, asked %q", wants, err, log())
	}
	if len(notes) != 1 || !strings.Contains(notes[0], " with 4 more tries and says ") {
		t.Errorf("notes %q", notes)
	}

	program, log = scontrolThat(t, busy)
	_, _, err = askScontrol(program, 3*time.Second)
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != gres.NoAnswer || !strings.Contains(err.Error(), "slurmctld does not answer: after ") {
		t.Errorf("error %v, wanted a refusal", err)
	}
	if strings.Count(log(), "\n") < 2 {
		t.Errorf("asked %q", log())
	}

	// A second try would begin after the deadline, and on a busy machine the first may, too.
	program, log = scontrolThat(t, busy)
	_, _, err = askScontrol(program, 100*time.Millisecond)
	if err == nil || strings.Count(log(), "\n") > 1 {
		t.Errorf("beyond the deadline: %v, asked %q", err, log())
	}
	// It answers only when the deadline has passed.
	program, log = scontrolThat(t, "sleep 3600\n"+busy)
	_, _, err = askScontrol(program, 3*time.Second)
	if err == nil || !strings.Contains(err.Error(), "no answer in time") || strings.Count(log(), "\n") != 1 {
		t.Errorf("without an answer: %v, asked %q", err, log())
	}
}

func TestTheAnswerSaysWhoWasAskedAboutAJobWithHCAs(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	write(t, conf, "SlurmctldHost=ctl1(10.0.0.1)\nSlurmctldHost=ctl2\n", 0o644)
	cfg := config.Default()
	cfg.Slurm.Source = []string{"scontrol"}
	for has, want := range map[string]string{"nic:1(IDX:0)": "s asking ctl1, ctl2 and says GRES=nic:1(IDX:0)", "gpu:1(IDX:0)": "s and says GRES=gpu:1(IDX:0)"} {
		cfg.Slurm.Scontrol, _ = scontrolThat(t, says(shown(4711, "node1", has)))
		_, notes, err := source.Ask(context.Background(), job.Job{ID: 4711, Node: "node1", Conf: conf}, cfg, source.Local{})
		if err != nil || len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("notes %q, %v, wanted %q", notes, err, want)
		}
	}
}
