package config

import (
	"slices"
)

func readPolicy(t table, names []string) Policy {
	t.Allow(
		// | condition: the job's partition is this, or one of these
		"partition",
		// | condition: its account
		"account",
		// | condition: its QOS, which Slurm tells since 26.05; with older versions no such policy fits
		"qos",
		// | condition: its reservation
		"reservation",
		// | condition: it requires the feature on each of its nodes (`hdr`, `hdr&big`), without a choice
		// (`hdr|ndr`)
		"constraint",
		// the first of `slurm.gres` | the GRES name of what it gives
		"gres",
		// any | the type
		"type",
		// | so many, the nearest free ones; 0: nothing. Not beside `indices`
		"count",
		// | or these, by Slurm's index
		"indices",
		// | as in `[access]`
		"isolation",
		// | as in `[access]`
		"rdma_cm",
		// | [what PFs do for their VFs](#what-the-pf-does-for-a-vf)
		"vf",
		// | in [which partition](#slots-for-partitions-p_keys) their slots are
		"pkey",
	)
	var p Policy
	for _, c := range []struct {
		key    string
		values *[]string
	}{
		{"partition", &p.Partition}, {"account", &p.Account}, {"qos", &p.QOS},
		{"reservation", &p.Reservation}, {"constraint", &p.Constraint},
	} {
		*c.values = t.Words(c.key)
		if slices.Contains(*c.values, "") {
			t.Fail(c.key, "GN164 leave the key out if the policy is for every job", "the text is empty")
		}
	}
	p.Gres, p.Type = readGres(t, names)
	count, counted := t.Number("count")
	p.Count = count
	indices, listed := t.Numbers("indices")
	if listed {
		p.Indices = indices
		slices.Sort(p.Indices)
	}
	p.Isolation, _ = t.Word("isolation", IsolateNetwork, IsolateDevices)
	p.CM = readCM(t)
	p.VF.read(t.Table("vf"))
	p.PKey = readPKey(t)
	saysMore := p.Isolation != "" || p.CM != "" || t.Has("vf") || p.PKey != 0
	p.Silent = saysMore && !slices.ContainsFunc([]string{"count", "indices", "gres", "type"}, t.Has)
	const hint = "GN165 give count or indices, not both; count = 0 gives nothing"
	switch {
	case p.Silent:
	case !t.Has("count") && !t.Has("indices"):
		t.Fail("count", hint, "is missing, and so is indices")
	case counted && t.Has("indices"):
		t.Fail("indices", hint, "count is there, too")
	case listed && len(indices) == 0:
		t.Fail("indices", hint, "the list is empty")
	}
	return p
}
