package slurm_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"gresnet/lib/slurm"
	"gresnet/test/stamptest"
)

func TestSlurmIsFoundInAPluginDirWhoeverWroteItsSlashes(t *testing.T) {
	root := fstest.MapFS{"usr/lib/x86_64-linux-gnu/slurm-wlm/auth_munge.so": stamptest.Plugin("auth/munge", 0x180b05)}
	for _, said := range []string{"/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib/x86_64-linux-gnu/slurm-wlm/", "/opt//more/:/usr/lib/x86_64-linux-gnu//slurm-wlm//"} {
		conf, err := slurm.ParseFile("slurm.conf", "PluginDir="+said+"\n")
		if err != nil {
			t.Fatal(err)
		}
		dirs, is := slurm.PluginDirs(root, slurm.Conf(conf.Lines), "/etc/slurm")
		version, found := slurm.InstalledVersion(root, dirs)
		if !is || !found || version.String() != "24.11" {
			t.Errorf("PluginDir=%s: %q, %v, %s, %v", said, dirs, is, version, found)
		}
		if want := "/usr/lib/x86_64-linux-gnu/slurm-wlm/spank_gresnet.so"; !slices.Contains(slurm.PluginFiles("spank_gresnet.so", dirs), want) {
			t.Errorf("PluginDir=%s: %q, want %s", said, slurm.PluginFiles("spank_gresnet.so", dirs), want)
		}
	}
}
