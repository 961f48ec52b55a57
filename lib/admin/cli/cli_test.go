package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gresnet/lib/base/config"
)

func TestABrokenConfigurationIsAWarningToWhoCanDoWithoutIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gresnet.toml")
	if err := os.WriteFile(file, []byte("[log]\nlevel = \"debug\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	w := &World{Args: []string{"gresnet-epilog", "--config", file}, Getenv: func(string) string { return "" }, Stderr: &said}
	var got config.Config
	exit := w.ServeSlurmd("gresnet-epilog", "", func(f Flags) error {
		got = w.Lenient(f)
		return nil
	})
	if exit != Done || !reflect.DeepEqual(got, config.Default()) {
		t.Errorf("exit %d with %+v", exit, got)
	}
	if want := "gresnet-epilog: warning: " + file + `:2: log.level: "debug" is not one of "warning", "notice", "info": the defaults hold [GN008]` + "\n"; said.String() != want {
		t.Errorf("it said %q, wanted %q", said.String(), want)
	}
}
