package report_test

import (
	"errors"
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
	if err := errors.Join(os.Remove(filepath.Join(dir, "nic0")), os.WriteFile(filepath.Join(dir, "nic0"), []byte("a site's own"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := report.MakePlaceholders(dir, []string{"nic0", "nic1"}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "nic0")); err != nil || string(text) != "a site's own" {
		t.Errorf("nic0 has %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "nic1")); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("nic1 is %v, %v, want a device node, for a file that is none Slurm complains of in each step", info, err)
	}
}
