package plugin

import (
	"fmt"
	"strings"

	"gresnet/lib/slurm"
)

// cgroupKeys are those that slurmd takes in cgroup.conf, of Slurm 22.05 to 26.05
// (src/interfaces/cgroup.c:_read_slurm_cgroup_conf). It does not start with another one.
const cgroupKeys = "allowedramspace alloweddevicesfile allowedswapspace cgroupautomount cgroupmountpoint cgroupplugin " +
	"constraincores constraindevices constrainramspace constrainswapspace ignoresystemd ignoresystemdonfailure " +
	"maxrampercent maxswappercent memorylimitenforcement memorylimitthreshold memoryswappiness minramspace"

// since has versions before which Slurm does not take a key.
var since = map[string]Version{
	"enablecontrollers": 23<<16 | 2<<8, "signalchildrenprocesses": 23<<16 | 11<<8, "systemdtimeout": 24<<16 | 5<<8,
	"cgroupslice": 25<<16 | 5<<8, "enableextracontrollers": 25<<16 | 5<<8, "cgroupjobidpaths": 25<<16 | 5<<8,
}

// until has the version from which Slurm no longer takes a key.
var until = map[string]Version{
	"allowedkmemspace": 23<<16 | 11<<8, "constrainkmemspace": 23<<16 | 11<<8, "maxkmempercent": 23<<16 | 11<<8, "minkmemspace": 23<<16 | 11<<8,
}

// CgroupFaults returns what slurmd of a version refuses a cgroup.conf for; 0 is one that is not known.
func (v Version) CgroupFaults(c slurm.Conf) (all []error) {
	who := "Slurm"
	if v > 0 {
		who += " " + v.String()
	}
	for _, l := range c {
		switch p := l.Keys[0]; {
		case len(l.Keys) > 1:
			all = append(all, fmt.Errorf("%s:%d: %s is not alone in its line", l.File, l.Number, p.Name))
		case !v.takes(p.Key):
			all = append(all, fmt.Errorf("%s:%d: %s has no %s", l.File, l.Number, who, p.Name))
		}
	}
	return all
}

func (v Version) takes(key string) bool {
	if first, is := since[key]; is {
		return v == 0 || v >= first
	}
	if end, is := until[key]; is {
		return v < end
	}
	return strings.Contains(" "+cgroupKeys+" ", " "+key+" ")
}
