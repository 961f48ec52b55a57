package config

import "slices"

func readPolicy(t table, names []string) Policy {
	t.allow("partition", "account", "qos", "reservation", "constraint", "gres", "type", "count", "indices", "isolation", "vf", "pkey")
	var p Policy
	for _, c := range []struct {
		key    string
		values *[]string
	}{
		{"partition", &p.Partition}, {"account", &p.Account}, {"qos", &p.QOS},
		{"reservation", &p.Reservation}, {"constraint", &p.Constraint},
	} {
		*c.values = t.words(c.key)
		if slices.Contains(*c.values, "") {
			t.fail(c.key, "GN164 leave the key out if the policy is for every job", "the text is empty")
		}
	}
	p.Gres, p.Type = readGres(t, names)
	count, counted := t.number("count")
	p.Count = count
	indices, listed := t.numbers("indices")
	if listed {
		p.Indices = indices
		slices.Sort(p.Indices)
	}
	_, saysCount := t.values["count"]
	_, saysIndices := t.values["indices"]
	p.Isolation, _ = t.word("isolation", IsolateNetwork, IsolateDevices)
	_, saysGres := t.values["gres"]
	_, saysType := t.values["type"]
	p.VF.read(t.table("vf"))
	_, saysVF := t.values["vf"]
	p.PKey = readPKey(t)
	p.Silent = (p.Isolation != "" || saysVF || p.PKey != 0) && !saysCount && !saysIndices && !saysGres && !saysType
	const hint = "GN165 give count or indices, not both; count = 0 gives nothing"
	switch {
	case p.Silent:
	case !saysCount && !saysIndices:
		t.fail("count", hint, "is missing, and so is indices")
	case counted && saysIndices:
		t.fail("indices", hint, "count is there, too")
	case listed && len(indices) == 0:
		t.fail("indices", hint, "the list is empty")
	}
	return p
}
