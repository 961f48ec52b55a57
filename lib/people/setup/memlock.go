package setup

import (
	"slices"
	"strings"

	"gresnet/lib/people/memlock"
	"gresnet/lib/slurm"
)

// others are all limits that Slurm knows, but this one (src/common/slurm_rlimits_info.c).
const others = "AS,CORE,CPU,DATA,FSIZE,NOFILE,NPROC,RSS,STACK"

// memlock has tasks lock as much memory as slurmd may, whoever submits their job.
func (p *planner) memlock(t *text) {
	if !memlock.Propagated(slurm.Conf(t.parse().Lines)) {
		return
	}
	except, only := t.keys(memlock.ExceptKey), t.keys(memlock.OnlyKey)
	switch {
	case len(except) > 0 && last(except).Value == "NONE":
		t.replace(last(except), memlock.Name)
	case len(except) > 0:
		t.list(memlock.ExceptKey, memlock.Name)
	case len(only) == 0:
		t.add(memlock.ExceptKey + "=" + memlock.Name)
	case last(only).Value == "ALL":
		t.replace(last(only), others)
	default:
		rest := slices.DeleteFunc(memlock.Words(last(only).Value), func(w string) bool { return w == memlock.Name })
		if len(rest) == 0 {
			rest = []string{"NONE"}
		}
		t.replace(last(only), strings.Join(rest, ","))
	}
}

// unit has slurmd lock as much memory as there is.
func (p *planner) unit() {
	if value, is := memlock.OfUnit(p.Root); !is || value == "infinity" || strings.HasPrefix(value, "infinity:") && strings.HasSuffix(value, ":infinity") {
		return
	}
	t, there, understood := p.open(memlock.DropIn)
	if !understood {
		return
	}
	before := t.String()
	t.content = memlock.DropInText
	p.change(t, there, before)
}
