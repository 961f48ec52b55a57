package check

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/slurm"
)

// plugstack checks what the plugin's line says to it. Whether there is one, and whether it is for this Slurm, says the plan.
func (s Site) plugstack(conf slurm.Conf, dir string) []Finding {
	lines, err := slurm.ReadPlugstack(s.Root, conf.Plugstack(dir))
	i := slices.IndexFunc(lines, func(l slurm.StackLine) bool { return l.Is("gresnet") && l.Need == "required" })
	if err != nil || i < 0 {
		return nil
	}
	return append([]Finding{s.line(lines[i], conf)}, s.neighbours(said(lines[i], "who", "steps"))...)
}

// arguments returns those that the plugin knows (spank/arguments.c), but state=DIR.
func arguments() []string {
	return []string{"steps", "batch=auto", "batch=single", "batch", "all", "pmix=relay", "pmix=off", "notice=on", "notice=off", "allow=none"}
}

// about returns what an argument is about. Two about the same thing exclude each other.
func about(argument string) string {
	if key, _, _ := strings.Cut(argument, "="); !strings.HasPrefix(argument, "batch") && key != argument {
		return key
	}
	return "who"
}

// said returns what the line has about a thing.
func said(l slurm.StackLine, thing, without string) string {
	if i := slices.IndexFunc(l.Arguments, func(a string) bool { return about(a) == thing }); i >= 0 {
		return l.Arguments[i]
	}
	return without
}

// arguments of the line must be those that the plugin knows.
func (s Site) arguments(l slurm.StackLine) Finding {
	const file = "plugstack.conf"
	for _, a := range l.Arguments {
		if dir, is := strings.CutPrefix(a, "state="); !(is && path.IsAbs(dir)) && !slices.Contains(arguments(), a) {
			return fail(file, "GN104 leave it out, or say one of "+strings.Join(arguments(), ", ")+", state=DIR", "the plugin does not know %q: no task starts", a)
		}
		if first := said(l, about(a), a); first != a {
			return fail(file, "GN105 leave one of them", "%s and %s exclude each other: no task starts", first, a)
		}
	}
	return ok(file, "%s", l)
}

// line checks what the line says to the plugin.
func (s Site) line(l slurm.StackLine, conf slurm.Conf) Finding {
	const about = "plugstack.conf"
	if f := s.arguments(l); f.Level != OK {
		return f
	}
	state, relay := strings.TrimPrefix(said(l, "state", "state=/run/gresnet"), "state="), said(l, "pmix", "") != "pmix=off"
	contained := strings.Contains(strings.ToLower(conf.Last("slurmdparameters")), "contain_spank")
	switch {
	case path.Clean(state) != path.Clean(s.State):
		return fail(about, "GN106 give both the same directory", "the plugin looks for leases in %s, and they are in %s: tasks would run in the node's network", state, s.State)
	case relay && contained:
		return fail(about, "GN107 add pmix=off to the line, or take contain_spank out of SlurmdParameters", "with contain_spank in SlurmdParameters, PMIx cannot be relayed")
	case !relay && strings.HasPrefix(conf.Last("mpidefault"), "pmix"):
		return warn(about, "GN108 leave pmix=off out", "MpiDefault=%s, and %s keeps PMIx from reaching its server", conf.Last("mpidefault"), l)
	}
	return ok(about, "%s", l)
}

// namespaces warns of user namespaces that Slurm makes for jobs: from inside of
// one, a task cannot enter its job's network namespace.
func (s Site) namespaces(conf slurm.Conf, dir string) []Finding {
	const about = "namespace.yaml"
	const do = "GN109 take CLONE_NEWUSER out of clone_ns_flags"
	if conf.Last("namespacetype") != "namespace/linux" {
		return nil
	}
	text, err := fs.ReadFile(s.Root, strings.TrimPrefix(path.Join(dir, about), "/"))
	if err != nil {
		return nil // slurmd does not start without it
	}
	perNode := false
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		perNode = perNode || strings.Contains(line, "node_confs")
		switch {
		case !strings.Contains(strings.ToUpper(line), "CLONE_NEWUSER"):
		case perNode:
			return []Finding{warn(about, do, "some nodes' jobs get user namespaces, and their tasks fail")}
		default:
			return []Finding{fail(about, do, "jobs get user namespaces, and their tasks fail")}
		}
	}
	return nil
}
