package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cgroupKeys are those that slurmd takes in cgroup.conf, of Slurm 22.05 to 26.05
// (src/interfaces/cgroup.c:_read_slurm_cgroup_conf). It does not start with another one.
const cgroupKeys = "allowedramspace alloweddevicesfile allowedswapspace cgroupautomount cgroupmountpoint cgroupplugin " +
	"constraincores constraindevices constrainramspace constrainswapspace ignoresystemd ignoresystemdonfailure " +
	"maxrampercent maxswappercent memorylimitenforcement memorylimitthreshold memoryswappiness minramspace"

// sinceVersion has versions before which Slurm does not take a key.
var sinceVersion = map[string]Version{
	"enablecontrollers": 23<<16 | 2<<8, "signalchildrenprocesses": 23<<16 | 11<<8, "systemdtimeout": 24<<16 | 5<<8,
	"cgroupslice": 25<<16 | 5<<8, "enableextracontrollers": 25<<16 | 5<<8, "cgroupjobidpaths": 25<<16 | 5<<8,
}

// untilVersion has the version from which Slurm no longer takes a key.
var untilVersion = map[string]Version{
	"allowedkmemspace": 23<<16 | 11<<8, "constrainkmemspace": 23<<16 | 11<<8, "maxkmempercent": 23<<16 | 11<<8, "minkmemspace": 23<<16 | 11<<8,
}

// CgroupFaults returns what slurmd of a version refuses a cgroup.conf for; 0 is one that is not known.
func (v Version) CgroupFaults(c Conf) (all []error) {
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
		case !reads(p.Key, p.Value):
			all = append(all, fmt.Errorf("%s:%d: %s has another value than %s", l.File, l.Number, p.Name, kindOf(p.Key)))
		}
	}
	return all
}

func (v Version) takes(key string) bool {
	if first, is := sinceVersion[key]; is {
		return v == 0 || v >= first
	}
	if end, is := untilVersion[key]; is {
		return v < end
	}
	return in(cgroupKeys, key)
}

func in(words, word string) bool {
	return slices.Contains(strings.Fields(words), strings.ToLower(word))
}

// The keys that slurmd reads as other than text.
const (
	cgroupBooleans = "constraincores constraindevices constrainramspace constrainswapspace constrainkmemspace " +
		"ignoresystemd ignoresystemdonfailure memorylimitenforcement enablecontrollers signalchildrenprocesses"
	cgroupNumbers = "allowedramspace allowedswapspace allowedkmemspace maxrampercent maxswappercent maxkmempercent memorylimitthreshold"
	cgroupWholes  = "memoryswappiness minramspace minkmemspace systemdtimeout"
)

// IsYes tells whether Slurm takes a value for yes (src/common/parse_config.c:_handle_boolean).
func IsYes(value string) bool { return in("yes up true 1", value) }

// reads tells whether slurmd takes a key's value: it does not start with another one.
func reads(key, value string) bool {
	if !in(cgroupBooleans, key) && in("unlimited infinite", value) {
		return true
	}
	var err error
	switch {
	case in(cgroupBooleans, key):
		return IsYes(value) || in("no down false 0", value)
	case in(cgroupNumbers, key):
		_, err = strconv.ParseFloat(value, 32)
	case in(cgroupWholes, key):
		_, err = strconv.ParseUint(value, 0, 64)
	}
	return err == nil
}

// kindOf says what values a key has.
func kindOf(key string) string {
	if in(cgroupBooleans, key) {
		return "yes or no"
	}
	return "a number"
}
