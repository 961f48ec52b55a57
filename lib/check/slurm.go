package check

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/rdma"
	"gresnet/lib/slurm"
	"gresnet/lib/stock"
)

// places is where slurm.conf is: packages' and, of a configless slurmd, its cache.
func places() []string {
	return []string{"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"}
}

// slurm checks what Slurm's own files say.
func (s Site) slurm() []Finding {
	file := s.SlurmConf
	for _, place := range places() {
		if file == "" && s.exists(place) {
			file = place
		}
	}
	if file == "" {
		return []Finding{warn("slurm.conf", "set SLURM_CONF to its path", "it is in none of %s: Slurm's configuration is not checked", strings.Join(places(), ", "))}
	}
	conf, err := slurm.Read(s.Root, file)
	if err != nil {
		return []Finding{failed("slurm.conf", err)}
	}
	all := []Finding{prologAndEpilog(conf), prologFlags(conf)}
	all = append(all, s.plugstack(conf, path.Dir(file)))
	if f, bad := s.healthCheck(conf); bad {
		all = append(all, f)
	}
	if s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.Scontrol) {
		all = append(all, s.gresTypes(conf))
		all = append(all, s.gresConf(path.Join(path.Dir(file), "gres.conf"))...)
	}
	return all
}

func (s Site) exists(file string) bool {
	_, err := fs.Stat(s.Root, strings.TrimPrefix(file, "/"))
	return err == nil
}

func prologAndEpilog(conf slurm.Conf) Finding {
	for _, key := range []string{"Prolog", "Epilog"} {
		value := conf.Last(strings.ToLower(key))
		program := "gresnet-" + strings.ToLower(key)
		switch {
		case value == "":
			return fail("slurm.conf", "set "+key+"=/usr/sbin/"+program, "it has no %s", key)
		case path.Base(value) != program:
			return warn("slurm.conf", "see that it runs "+program, "%s is %s", key, value)
		}
	}
	return ok("slurm.conf", "Prolog and Epilog are gresnet's")
}

// prologFlags must make slurmd run the prolog when a job starts, on each of its
// nodes, and not before a step here or there. The other flags imply Alloc
// (Slurm src/common/read_config.c).
func prologFlags(conf slurm.Conf) Finding {
	flags := strings.Split(strings.ToLower(conf.Last("prologflags")), ",")
	for _, f := range []string{"contain", "alloc", "x11", "runinjob"} {
		if slices.Contains(flags, f) {
			return ok("slurm.conf", "PrologFlags=%s", conf.Last("prologflags"))
		}
	}
	return fail("slurm.conf", "set PrologFlags=Contain", "PrologFlags has neither Contain nor Alloc: a step may start before its job has HCAs")
}

// healthCheck warns of a program that counts HCAs while they are away.
func (s Site) healthCheck(conf slurm.Conf) (f Finding, bad bool) {
	program, states := conf.Last("healthcheckprogram"), strings.ToUpper(conf.Last("healthchecknodestate"))
	if program == "" || s.StockErr != nil || s.Stock.Mode != rdma.Exclusive || states == "IDLE" {
		return Finding{}, false
	}
	return warn("slurm.conf", "set HealthCheckNodeState=IDLE, or have it count no HCAs", "%s runs while jobs do, and sees no HCA that is in one", program), true
}

// gresTypes must have the GRES that scontrol is asked for.
func (s Site) gresTypes(conf slurm.Conf) Finding {
	types := strings.Split(conf.Last("grestypes"), ",")
	for _, name := range s.Config.Slurm.Gres {
		if !slices.Contains(types, name) {
			return fail("slurm.conf", "add it, or correct slurm.gres in gresnet.toml", "GresTypes lacks %s", name)
		}
	}
	return ok("slurm.conf", "GresTypes has %s", strings.Join(s.Config.Slurm.Gres, ", "))
}

// plugstack must have the plugin, and as one without which no task starts.
func (s Site) plugstack(conf slurm.Conf, dir string) Finding {
	const do = "add the line: required spank_gresnet.so"
	file := conf.Last("plugstackconfig")
	if file == "" {
		file = path.Join(dir, "plugstack.conf")
	}
	lines, err := s.plugins(file, 0)
	if err != nil {
		return Finding{Level: Error, About: "plugstack.conf", Text: err.Error(), Do: do}
	}
	for _, fields := range lines {
		switch {
		case !strings.Contains(path.Base(fields[1]), "gresnet"):
		case fields[0] != "required":
			return fail("plugstack.conf", do, "%s is %s: where it fails, tasks run in the node's network", fields[1], fields[0])
		case path.IsAbs(fields[1]) && !s.exists(fields[1]):
			return fail("plugstack.conf", "install it for this version of Slurm", "%s is not there", fields[1])
		default:
			return ok("plugstack.conf", "%s %s", fields[0], fields[1])
		}
	}
	return fail("plugstack.conf", do, "%s does not have gresnet's plugin: tasks would run in the node's network", file)
}

// plugins are the lines of a plugstack.conf and of what it includes (spank(8)).
func (s Site) plugins(file string, depth int) ([][]string, error) {
	const deepest = 8
	if depth > deepest {
		return nil, fmt.Errorf("read %s: files include one another", file)
	}
	text, err := fs.ReadFile(s.Root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var lines [][]string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if fields[0] != "include" {
			lines = append(lines, fields)
			continue
		}
		pattern := fields[1]
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(file), pattern)
		}
		names, err := fs.Glob(s.Root, strings.TrimPrefix(pattern, "/"))
		if err != nil {
			return nil, fmt.Errorf("read %s: include %s: %w", file, fields[1], err)
		}
		for _, name := range names {
			more, err := s.plugins("/"+name, depth+1)
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
		}
	}
	return lines, nil
}

// device is one device of a GRES as gres.conf has it. File is empty where Count= is all.
type device struct{ kind, file string }

// gresConf holds gres.conf against the mapping: Slurm's index is that of the
// line, and must mean the same HCA here.
func (s Site) gresConf(file string) []Finding {
	conf, err := slurm.Read(s.Root, file)
	if err != nil {
		return []Finding{failed("gres.conf", err)}
	}
	if s.StockErr != nil || s.Drift != nil {
		return nil // there is no mapping to hold it against
	}
	var all []Finding
	for _, name := range s.Config.Slurm.Gres {
		devices, err := s.devices(conf, name)
		if err != nil {
			return []Finding{failed("gres.conf", err)}
		}
		all = append(all, s.compare(name, devices))
	}
	return all
}

func (s Site) devices(conf slurm.Conf, name string) ([]device, error) {
	var devices []device
	for _, l := range conf {
		if l.Get("name") != name {
			continue
		}
		if hosts := l.Get("nodename"); hosts != "" {
			here, err := gres.InHostlist(hosts, s.Node)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", l.File, l.Number, err)
			}
			if !here {
				continue
			}
		}
		if files := l.Get("file"); files != "" {
			names, err := expand(files)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", l.File, l.Number, err)
			}
			for _, n := range names {
				devices = append(devices, device{l.Get("type"), n})
			}
			continue
		}
		count := 1
		if text := l.Get("count"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > job.MaxIndex {
				return nil, fmt.Errorf("%s:%d: %q is no count", l.File, l.Number, text)
			}
			count = n
		}
		for range count {
			devices = append(devices, device{kind: l.Get("type")})
		}
	}
	return devices, nil
}

// expand spells out "/dir/hca[0-3]".
func expand(text string) ([]string, error) {
	before, rest, bracketed := strings.Cut(text, "[")
	if !bracketed {
		return strings.Split(text, ","), nil
	}
	inside, after, closed := strings.Cut(rest, "]")
	numbers, err := job.ParseIndices(inside)
	if !closed || err != nil || strings.ContainsAny(after, "[],") {
		return nil, fmt.Errorf("%q is no list of files that this program can read", text)
	}
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = before + strconv.Itoa(n) + after
	}
	return names, nil
}

func (s Site) compare(name string, devices []device) Finding {
	const about = "gres.conf"
	const do = "take the lines from gresnet-prolog scan --gres-conf"
	mapped := map[int]stock.HCA{}
	for _, h := range s.Stock.HCAs {
		if h.Gres == name {
			mapped[h.Index] = h
		}
	}
	if len(devices) != len(mapped) {
		return fail(about, do, "it has %d %s for this node, the mapping has %d", len(devices), name, len(mapped))
	}
	for i, d := range devices {
		h, there := mapped[i]
		switch {
		case !there:
			return fail(about, do, "%s %d is not in the mapping", name, i)
		case d.kind != h.Type && h.Type != "":
			return fail(about, do, "%s %d is of type %q, in the mapping of type %q", name, i, d.kind, h.Type)
		case d.file == "":
			return warn(about, do, "%s has Count= and no File=: Slurm tells no indices, and each job gets what is free", name)
		case strings.HasPrefix(d.file, "/dev/infiniband/"):
			return fail(about, do, "%s %d is %s, whose number changes when the HCA is moved", name, i, d.file)
		case !s.exists(d.file):
			return fail(about, "make it: gresnet-prolog scan --gres-files", "%s is not there, and slurmd does not start without it", d.file)
		}
	}
	return ok(about, "%d %s", len(devices), name)
}
