package report_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"

	"gresnet/lib/hca/report"
)

func TestPlaceholdersAreThoseThatGresConfNamesInOurFolder(t *testing.T) {
	gres := &fstest.MapFile{Data: []byte("Name=gpu File=/dev/nvidia0\nName=nic File=/var/lib/gresnet/gres/nic[0-1]\nName=x File=/srv/x\n")}
	for _, c := range []struct {
		name  string
		root  fstest.MapFS
		files []string
		known bool
	}{
		{"a gres.conf", fstest.MapFS{"etc/slurm/gres.conf": gres}, []string{"nic0", "nic1"}, true},
		{"one elsewhere", fstest.MapFS{"opt/slurm/etc/gres.conf": gres}, []string{"nic0", "nic1"}, true},
		{"one without our files", fstest.MapFS{"etc/slurm/gres.conf": {Data: []byte("Name=nic Count=2\n")}}, nil, true},
		{"none", fstest.MapFS{"etc/slurm/slurm.conf": gres}, nil, false},
	} {
		if files, known := report.NamedPlaceholders(c.root); known != c.known || !reflect.DeepEqual(files, c.files) {
			t.Errorf("%s: got %q, %v, want %q, %v", c.name, files, known, c.files, c.known)
		}
	}
}

func TestPlaceholdersAreMadeWhereTheyAreMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lib/hca/gres")
	if err := report.MakePlaceholders(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a folder was made for no file: %v", err)
	}
	if err := report.MakePlaceholders(dir, []string{"nic0"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nic0"), []byte("a site's own"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report.MakePlaceholders(dir, []string{"nic0", "nic1"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"nic0": "a site's own", "nic1": ""} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", name, text, err, want)
		}
	}
}
