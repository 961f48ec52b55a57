package source_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/test/netnstest"
	"gresnet/test/sitetest"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// askSite asks a source about job 4711 on a site with GRES nic and hca.
func askSite(name string, change func(*config.Slurm)) ([]gres.Want, []string, error) {
	cfg := config.Default()
	cfg.Slurm.Gres = []string{"nic", "hca"}
	cfg.Slurm.Source = []string{name}
	change(&cfg.Slurm)
	j := job.Job{ID: 4711, UID: 1000, User: "ada", Node: "node1", Partition: "train", GPUs: []int{0, 1}}
	return source.Ask(context.Background(), j, cfg, source.Local{})
}

// askThatSays asks a program that prints a text.
func askThatSays(t *testing.T, path, text string) ([]gres.Want, []string, error) {
	t.Helper()
	write(t, path+".says", text, 0o644)
	write(t, path, "#!/bin/sh\nexec cat "+path+".says\n", 0o755)
	return askProgram(path)
}

func TestAProgramSaysInSeveralFormsWhatAJobGets(t *testing.T) {
	path := filepath.Join(netnstest.RootsFolder(t), "hcas")
	for _, c := range []struct {
		text string
		want []gres.Want
	}{
		{"none\n", nil},
		{"nic\n", []gres.Want{{Gres: "nic", Count: 1}}},
		{"nic:mlx5\n", []gres.Want{{Gres: "nic", Type: "mlx5", Count: 1}}},
		{"nic:mlx5:2\nhca:1(IDX:3)\n", []gres.Want{{Gres: "nic", Type: "mlx5", Count: 2}, {Gres: "hca", Indices: []int{3}}}},
		{"nic:3(IDX:0-1,5)\nhca(CNT:2)\n", []gres.Want{{Gres: "nic", Indices: []int{0, 1, 5}}, {Gres: "hca", Count: 2}}},
	} {
		wants, _, err := askThatSays(t, path, c.text)
		for i := range c.want {
			c.want[i].Source = "program"
		}
		if err != nil || !reflect.DeepEqual(wants, c.want) {
			t.Errorf("%q is %+v, %v, want %+v", c.text, wants, err, c.want)
		}
	}
}

func TestWhatIsNotInFormIsTheNodesFault(t *testing.T) {
	path := filepath.Join(netnstest.RootsFolder(t), "hcas")
	for text, want := range map[string]string{
		"nic:2":          "it does not end with a line's end: it is cut off",
		"\n":             `parse GRES "": "" is not a GRES that means an HCA; those are nic, hca`,
		"nic:2\n\n":      `parse GRES "": "" is not a GRES that means an HCA; those are nic, hca`,
		"none\nnic:1\n":  `parse GRES "none": "none" is not a GRES that means an HCA; those are nic, hca`,
		"gpu:2\n":        `parse GRES "gpu:2": "gpu" is not a GRES that means an HCA; those are nic, hca`,
		" nic:2\n":       `parse GRES " nic:2": " nic" is not a GRES that means an HCA; those are nic, hca`,
		"nic:0\n":        `parse GRES "nic:0": its count is 0`,
		"nic:1\nnic:2\n": `parse GRES "nic:2": it is there twice`,
		"nic:2(IDX:0)\n": `parse GRES "nic:2(IDX:0)": it counts 2 and has 1 indices`,
		"nic:2()\n":      `parse GRES "nic:2()": unknown form; known are name:count(IDX:…) and name(CNT:…)`,
		"nic:a:b:2\n":    `parse GRES "nic:a:b:2": unknown form; known are name:type:count(IDX:…) and name:type(CNT:…)`,
		"nic:99999\n":    `parse GRES "nic:99999": a count of 99999 is beyond 4096`,
	} {
		_, _, err := askThatSays(t, path, text)
		if err == nil {
			t.Fatalf("%q is read", text)
		}
		sitetest.Fault(t, plain{took.ReplaceAllString(err.Error(), ""), err}, "ask "+path+" about job 4711: "+want)
	}
}

func TestAProgramThatOthersMayHaveWrittenIsTheNodesFault(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		err  string // DIR stands for the folder
	}{
		"of a user":          {func(t *testing.T, dir string) { chown(t, dir+"/4711", 1000) }, "it is not root's"},
		"that a group may":   {func(t *testing.T, dir string) { chmod(t, dir+"/4711", 0o775) }, "others than root may write it (-rwxrwxr-x)"},
		"in a user's folder": {func(t *testing.T, dir string) { chown(t, dir, 1000) }, "DIR: it is not root's"},
		"in a sticky folder": {func(t *testing.T, dir string) { chmod(t, dir, os.ModeSticky|0o777) }, "DIR: others than root may write it (dtrwxrwxrwx)"},
		"that is a link": {func(t *testing.T, dir string) {
			check(t, os.Remove(dir+"/4711"))
			link(t, "/bin/true", dir+"/4711")
		}, "it is a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(netnstest.RootsFolder(t), "jobs")
			mkdir(t, dir)
			write(t, dir+"/4711", "#!/bin/sh\necho nic\n", 0o755)
			c.make(t, dir)
			wants, _, err := askProgram(dir + "/4711")
			if err == nil || len(wants) != 0 {
				t.Fatalf("wants %+v", wants)
			}
			sitetest.Fault(t, plain{took.ReplaceAllString(err.Error(), ""), err}, "ask "+dir+"/4711 about job 4711: "+strings.ReplaceAll(c.err, "DIR", dir))
		})
	}
}

func chown(t *testing.T, path string, uid int)          { check(t, os.Chown(path, uid, -1)) }
func chmod(t *testing.T, path string, mode os.FileMode) { check(t, os.Chmod(path, mode)) }
func link(t *testing.T, to, path string)                { check(t, os.Symlink(to, path)) }
func mkdir(t *testing.T, path string)                   { check(t, os.Mkdir(path, 0o755)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func askProgram(path string) ([]gres.Want, []string, error) { return askProgramFor(patient, path) }

func askProgramFor(most time.Duration, path string) ([]gres.Want, []string, error) {
	return askSite("program", func(s *config.Slurm) { s.Program, s.Timeout = path, most })
}

func TestProgramSaysWhatAJobGets(t *testing.T) {
	t.Setenv("SPANK_X", "user")
	path := filepath.Join(netnstest.RootsFolder(t), "hcas")
	write(t, path, "#!/bin/sh\n[ \"$1 $# $SLURM_JOB_USER $SLURM_JOB_PARTITION $SLURM_JOB_GPUS $SPANK_X\" = '4711 1 ada train 0-1 ' ] || exit 9\necho nic:2\n", 0o755)
	wants, notes, err := askProgram(path)
	if want := []gres.Want{{Gres: "nic", Count: 2, Source: "program"}}; err != nil || !reflect.DeepEqual(wants, want) {
		t.Errorf("got %+v, %v, want %+v", wants, err, want)
	}
	if len(notes) != 1 || !strings.HasSuffix(notes[0], " and says nic:2") {
		t.Errorf("notes %q", notes)
	}
	write(t, path, "#!/bin/sh\n", 0o755)
	wants, notes, err = askProgram(path)
	if err != nil || len(wants) != 0 || len(notes) != 1 || !strings.HasSuffix(notes[0], " and does not know the job") {
		t.Errorf("of a job that it does not know: %+v, %q, %v", wants, notes, err)
	}
}

func TestAProgramThatFailsIsTheNodesFault(t *testing.T) {
	path := filepath.Join(netnstest.RootsFolder(t), "hcas")
	for name, c := range map[string]struct{ script, err string }{
		"fails":    {"echo no database >&2\nexit 3\n", `exit status 3: it says "no database"`},
		"hangs":    {"exec sleep 1000\n", "no answer in time"},
		"cut off":  {"printf nic:2\n", "it does not end with a line's end: it is cut off"},
		"too much": {"yes nic\n", "it printed too much: more than 64 KiB"},
		"garbage":  {"echo hello\n", `parse GRES "hello": "hello" is not a GRES that means an HCA; those are nic, hca`},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, "#!/bin/sh\n"+c.script, 0o755)
			most := patient
			if name == "hangs" {
				most = time.Second
			}
			_, _, err := askProgramFor(most, path)
			if err == nil {
				t.Fatal("no error")
			}
			sitetest.Fault(t, plain{took.ReplaceAllString(err.Error(), ""), err}, "ask "+path+" about job 4711: "+c.err)
		})
	}
	write(t, path, "#!/bin/sh\necho nic\n", 0o757)
	_, _, err := askProgram(path)
	sitetest.Fault(t, plain{took.ReplaceAllString(err.Error(), ""), err}, "ask "+path+" about job 4711: others than root may write it (-rwxr-xrwx)")
	check(t, os.Remove(path))
	_, _, err = askProgram(path)
	sitetest.Fault(t, plain{took.ReplaceAllString(err.Error(), ""), err}, "ask "+path+" about job 4711: there is no such program")
}
