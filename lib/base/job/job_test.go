package job_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/job"
)

// env returns a getenv over "NAME=value" lines.
func env(lines ...string) func(string) string {
	return func(name string) string {
		value := ""
		for _, l := range lines {
			if v, ok := strings.CutPrefix(l, name+"="); ok {
				value = v
			}
		}
		return value
	}
}

var whole = []string{
	"SLURM_JOB_ID=4711", "SLURM_JOB_UID=1000", "SLURM_JOB_GID=100", "SLURM_JOB_USER=ada",
	"SLURMD_NODENAME=node1", "SLURM_CONF=/etc/slurm/slurm.conf",
}

func TestFromEnv(t *testing.T) {
	ada := job.Job{ID: 4711, UID: 1000, GID: 100, User: "ada", Node: "node1", Conf: "/etc/slurm/slurm.conf"}
	with := func(change func(*job.Job)) job.Job {
		j := ada
		change(&j)
		return j
	}
	for _, c := range []struct {
		name, line string
		want       job.Job
		err        string
	}{
		{name: "plain", want: ada},
		{name: "largest id", line: "SLURM_JOB_ID=4294967293", want: with(func(j *job.Job) { j.ID = 4294967293 })},
		{name: "root", line: "SLURM_JOB_UID=0", want: with(func(j *job.Job) { j.UID = 0 })},
		{name: "requeued", line: "SLURM_JOB_RESTART_COUNT=2", want: with(func(j *job.Job) { j.Run.Restart = 2 })},
		{name: "named run", line: "SLURM_JOB_SLUID=s8KQ3V7Z1", want: with(func(j *job.Job) { j.Run.SLUID = "s8KQ3V7Z1" })},
		{name: "GPUs", line: "SLURM_JOB_GPUS=0,1", want: with(func(j *job.Job) { j.GPUs = []int{0, 1} })},
		{name: "GPU ranges", line: "SLURM_JOB_GPUS=6,0-3", want: with(func(j *job.Job) { j.GPUs = []int{0, 1, 2, 3, 6} })},
		{name: "partition", line: "SLURM_JOB_PARTITION=train", want: with(func(j *job.Job) { j.Partition = "train" })},
		{name: "account", line: "SLURM_JOB_ACCOUNT=physics", want: with(func(j *job.Job) { j.Account = "physics" })},
		{name: "quality of service", line: "SLURM_JOB_QOS=high", want: with(func(j *job.Job) { j.QOS = "high" })},
		{name: "reservation", line: "SLURM_JOB_RESERVATION=r", want: with(func(j *job.Job) { j.Reservation = "r" })},
		{name: "start", line: "SLURM_JOB_START_TIME=1764113130", want: with(func(j *job.Job) { j.Start = time.Unix(1764113130, 0) })},
		{name: "no start that reads", line: "SLURM_JOB_START_TIME=Unknown", want: with(func(*job.Job) {})},
		{name: "constraint", line: "SLURM_JOB_CONSTRAINTS=a&b,c", want: with(func(j *job.Job) { j.Features = []string{"a", "b", "c"} })},
		{name: "constraint with a choice", line: "SLURM_JOB_CONSTRAINTS=a&(b|c)", want: ada},
		{name: "constraint with a count", line: "SLURM_JOB_CONSTRAINTS=a*2&b*1", want: ada},
		{name: "constraint of one of several", line: "SLURM_JOB_CONSTRAINTS=[a|b]", want: ada},
		{name: "a node to itself", line: "SLURM_JOB_EXCLUSIVE=NODE", want: with(func(j *job.Job) { j.Share.Exclusive = "NODE" })},
		{name: "what a user writes", line: "SLURM_JOB_COMMENT=nic:8", want: ada},
		{name: "component", line: "SLURM_HET_JOB_ID=4711", want: with(func(j *job.Job) { j.Leader = 4711 })},
		{name: "nodes", line: "SLURM_NODELIST=node[1-3]", want: with(func(j *job.Job) { j.Nodes = "node[1-3]" })},
		{name: "no node name", line: "SLURMD_NODENAME=", want: with(func(j *job.Job) { j.Node = "" })},

		{name: "no id", line: "SLURM_JOB_ID=", err: "SLURM_JOB_ID is not set"},
		{name: "id zero", line: "SLURM_JOB_ID=0", err: `SLURM_JOB_ID: parse number "0": out of range`},
		{name: "id with a path", line: "SLURM_JOB_ID=../x", err: `SLURM_JOB_ID: parse number "../x"`},
		{name: "negative id", line: "SLURM_JOB_ID=-1", err: `SLURM_JOB_ID: parse number "-1"`},
		{name: "signed id", line: "SLURM_JOB_ID=+1", err: `SLURM_JOB_ID: parse number "+1"`},
		{name: "id with a space", line: "SLURM_JOB_ID= 1", err: `SLURM_JOB_ID: parse number " 1"`},
		{name: "id with a line end", line: "SLURM_JOB_ID=1\n", err: `SLURM_JOB_ID: parse number "1\n"`},
		{name: "id with a leading zero", line: "SLURM_JOB_ID=01", err: `SLURM_JOB_ID: parse number "01"`},
		{name: "hexadecimal id", line: "SLURM_JOB_ID=0x1", err: `SLURM_JOB_ID: parse number "0x1"`},
		{name: "array notation", line: "SLURM_JOB_ID=12_3", err: `SLURM_JOB_ID: parse number "12_3"`},
		{name: "id of 41 bits", line: "SLURM_JOB_ID=1099511627776", err: `SLURM_JOB_ID: parse number "1099511627776": out of range`},
		{name: "id of 65 bits", line: "SLURM_JOB_ID=18446744073709551617", err: `SLURM_JOB_ID: parse number "18446744073709551617"`},
		{name: "NO_VAL", line: "SLURM_JOB_ID=4294967294", err: `SLURM_JOB_ID: parse number "4294967294": out of range`},
		{name: "no uid", line: "SLURM_JOB_UID=", err: "SLURM_JOB_UID is not set"},
		{name: "uid -1", line: "SLURM_JOB_UID=4294967295", err: `SLURM_JOB_UID: parse number "4294967295": out of range`},
		{name: "uid is a name", line: "SLURM_JOB_UID=ada", err: `SLURM_JOB_UID: parse number "ada"`},
		{name: "no gid", line: "SLURM_JOB_GID=", err: "SLURM_JOB_GID is not set"},
		{name: "restart count", line: "SLURM_JOB_RESTART_COUNT=x", err: `SLURM_JOB_RESTART_COUNT: parse number "x"`},
		{name: "SLUID with a path", line: "SLURM_JOB_SLUID=../x", err: `SLURM_JOB_SLUID: SLUID "../x" has a character that is no letter or digit`},
		{name: "SLUID with a line end", line: "SLURM_JOB_SLUID=s\nLD_PRELOAD=x", err: `SLURM_JOB_SLUID: SLUID "s\nLD_PRELOAD=x" has a character that is no letter or digit`},
		{name: "long SLUID", line: "SLURM_JOB_SLUID=" + strings.Repeat("s", 33), err: `SLURM_JOB_SLUID: SLUID "` + strings.Repeat("s", 33) + `" is not 1 to 32 characters long`},
		{name: "component of no job", line: "SLURM_HET_JOB_ID=x", err: `SLURM_HET_JOB_ID: parse number "x"`},
		{name: "GPUs of another form", line: "SLURM_JOB_GPUS=gpu0", err: `SLURM_JOB_GPUS: parse indices "gpu0": parse number "gpu0"`},
		{name: "long garbage", line: "SLURM_JOB_ID=" + strings.Repeat("x", 100000), err: `SLURM_JOB_ID: parse number "` + strings.Repeat("x", 120) + `…"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := job.FromEnv(env(append(slices.Clone(whole), c.line)...))
			checkError(t, err, c.err)
			if err == nil && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			var hinted interface{ Hint() string }
			if err != nil && !errors.As(err, &hinted) {
				t.Errorf("%v has no hint", err)
			}
		})
	}
}

func TestNothingThatUsersWriteIsRead(t *testing.T) {
	plain := env(whole...)
	read := func(name string) string {
		for _, users := range []string{"SPANK", "COMMENT", "EXTRA", "WORK_DIR", "STD"} {
			if strings.Contains(name, users) {
				t.Errorf("%s was read", name)
			}
		}
		return plain(name)
	}
	if _, err := job.FromEnv(read); err != nil {
		t.Error(err)
	}
	if _, err := job.Ended(read); err != nil {
		t.Error(err)
	}
}

func TestEnded(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  job.Job
		err   string
	}{
		{name: "id alone", lines: []string{"SLURM_JOB_ID=4711"}, want: job.Job{ID: 4711}},
		{name: "all it reads", lines: []string{"SLURM_JOB_ID=4711", "SLURM_JOB_RESTART_COUNT=1", "SLURM_JOB_SLUID=sA", "SLURM_JOB_UID=1000"},
			want: job.Job{ID: 4711, Run: job.Run{Restart: 1, SLUID: "sA"}, UID: 1000}},
		{name: "what it does not need is garbage", lines: []string{"SLURM_JOB_ID=4711", "SLURM_JOB_UID=x", "SLURM_JOB_GID=x", "SLURM_JOB_GPUS=x"}, want: job.Job{ID: 4711}},
		{name: "no id", err: "SLURM_JOB_ID is not set"},
		{name: "id with a path", lines: []string{"SLURM_JOB_ID=../x"}, err: `SLURM_JOB_ID: parse number "../x"`},
		{name: "restart count", lines: []string{"SLURM_JOB_ID=1", "SLURM_JOB_RESTART_COUNT=-1"}, err: `SLURM_JOB_RESTART_COUNT: parse number "-1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := job.Ended(env(c.lines...))
			checkError(t, err, c.err)
			if err == nil && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestRunPrintsWhatItParses(t *testing.T) {
	for text, want := range map[string]job.Run{
		"0":               {},
		"2":               {Restart: 2},
		"2/s8KQ3V7Z1":     {Restart: 2, SLUID: "s8KQ3V7Z1"},
		"4294967293/sABC": {Restart: 4294967293, SLUID: "sABC"},
	} {
		got, err := job.ParseRun(text)
		if err != nil || got != want {
			t.Errorf("ParseRun(%q) is %+v, %v, want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%+v prints %q, want %q", got, got, text)
		}
	}
	for text, want := range map[string]string{
		"":      `parse run "": parse number ""`,
		"/sA":   `parse run "/sA": parse number ""`,
		"2/":    `parse run "2/": SLUID "" is not 1 to 32 characters long`,
		"2/a/b": `parse run "2/a/b": SLUID "a/b" has a character that is no letter or digit`,
		"02":    `parse run "02": parse number "02"`,
		"2\n":   `parse run "2\n": parse number "2\n"`,
	} {
		_, err := job.ParseRun(text)
		checkError(t, err, want)
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
