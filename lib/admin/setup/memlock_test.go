package setup

import (
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/slurm"
)

func TestTasksHaveTheSubmittersLimitAsSlurmConfSays(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                       true,
		"PropagateResourceLimits=ALL":            true,
		"PropagateResourceLimits=NONE":           false,
		"PropagateResourceLimits=NOFILE":         false,
		"PropagateResourceLimits=NOFILE,MEMLOCK": true,
		"PropagateResourceLimits=NOFILE,RLIMIT_MEMLOCK":                               true,
		"PropagateResourceLimitsExcept=MEMLOCK":                                       false,
		"PropagateResourceLimitsExcept=AS,RLIMIT_MEMLOCK":                             false,
		"PropagateResourceLimitsExcept=ALL":                                           false,
		"PropagateResourceLimitsExcept=NONE":                                          true,
		"PropagateResourceLimitsExcept=AS":                                            true,
		"PropagateResourceLimits=ALL\nPropagateResourceLimitsExcept=MEMLOCK":          false,
		"PropagateResourceLimitsExcept=MEMLOCK\nPropagateResourceLimitsExcept=NOFILE": true,
	} {
		f, err := slurm.ParseFile("slurm.conf", text)
		if got := propagated(slurm.Conf(f.Lines)); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestAUnitsLimitIsThatOfItsLastDropIn(t *testing.T) {
	files := func(lines ...string) fstest.MapFS {
		root := fstest.MapFS{}
		for _, l := range lines {
			name, text, _ := strings.Cut(l, ": ")
			root[name] = &fstest.MapFile{Data: []byte("[Service]\n" + text + "\n")}
		}
		return root
	}
	const lib, etc, d = "usr/lib/systemd/system/", "etc/systemd/system/", "slurmd.service.d/"
	for _, c := range []struct {
		root fstest.MapFS
		want string
		is   bool
	}{
		{files(), "", false},
		{files(lib + "slurmd.service: KillMode=process"), "", true},
		{files(lib + "slurmd.service: LimitMEMLOCK=infinity"), "infinity", true},
		{files(lib+"slurmd.service: LimitMEMLOCK=infinity", etc+"slurmd.service: LimitMEMLOCK = 8M"), "8M", true},
		{files(lib+"slurmd.service: LimitMEMLOCK=infinity", lib+d+"b.conf: LimitMEMLOCK=1M", etc+d+"a.conf: LimitMEMLOCK=2M"), "1M", true},
		{files(lib+"slurmd.service: LimitMEMLOCK=infinity", lib+d+"b.conf: LimitMEMLOCK=1M", etc+d+"b.conf: LimitMEMLOCK=2M"), "2M", true},
		{files(lib+"slurmd.service: X=y", etc+d+"override.conf: LimitMEMLOCK=1M", strings.TrimPrefix(dropIn, "/")+": LimitMEMLOCK=infinity"), "infinity", true},
	} {
		if got, is := ofUnit(c.root); got != c.want || is != c.is {
			t.Errorf("%v: got %q, %v, want %q, %v", c.root, got, is, c.want, c.is)
		}
	}
}
