package slurm_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/slurm"
)

func TestTasksJoinTheirJobOnlyWhereThePluginIsRequired(t *testing.T) {
	for _, c := range []struct {
		name, conf, stack, own string
		want                   string
	}{
		{"an include of the node's own file", "", "include /etc/gresnet/plugstack.conf\n", "required spank_gresnet.so batch=auto\n", ""},
		{"a line", "", "optional other.so\nrequired /opt/spank_gresnet.so\n", "", ""},
		{"another plugstack.conf", "PlugStackConfig=/srv/stack\n", "", "", "/srv/stack"},
		{"an include of nothing", "", "include /etc/gresnet/plugstack.conf\n", "-", "does not have it"},
		{"no include", "", "", "required spank_gresnet.so\n", "does not have it"},
		{"optional", "", "include /etc/gresnet/plugstack.conf\n", "optional spank_gresnet.so\n", `has "optional spank_gresnet.so"`},
		{"no plugstack.conf", "", "-", "required spank_gresnet.so\n", "/etc/slurm/plugstack.conf"},
		{"no slurm.conf", "-", "", "", "/etc/slurm/slurm.conf"},
	} {
		root := fstest.MapFS{}
		for name, text := range map[string]string{"etc/slurm/slurm.conf": c.conf, "etc/slurm/plugstack.conf": c.stack, "etc/gresnet/plugstack.conf": c.own} {
			if text != "-" {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		err := slurm.Joined(root, "/etc/slurm/slurm.conf")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A script of gresnet's that all hosts have alike comes to the program where that is installed.
func TestAScriptThatDoesNothingWithoutTheProgramCallsItAllTheSame(t *testing.T) {
	script := "#!/bin/sh\n# same on all hosts\n" + slurm.Guard("/usr/sbin/gresnet-prolog") + "\nexec /usr/sbin/gresnet-prolog\n"
	for _, c := range []struct {
		name, script string
		want         slurm.Call
	}{
		{"gresnet's", script, slurm.Calls},
		{"one with another guard", strings.Replace(script, "|| exit 0", "&& exit 0", 1), slurm.Mentions},
		{"one that goes on", script + "exit 0\n", slurm.Mentions},
	} {
		root := fstest.MapFS{"etc/slurm/prolog.d/00": {Data: []byte(c.script)}, "usr/sbin/gresnet-prolog": {}}
		if got := slurm.CallOf(root, "/etc/slurm/prolog.d/00", "gresnet-prolog"); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
