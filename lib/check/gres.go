package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/job"
	"gresnet/lib/slurm"
	"gresnet/lib/stock"
)

// gres holds what Slurm counts against the mapping, where Slurm's count is what
// jobs get; and Slurm's GPUs against the node's, where these say what jobs get.
func (s Site) gres(conf slurm.Conf, dir string) []Finding {
	byCount := s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.Scontrol)
	byGPU := s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.GPU) && s.StockErr == nil && s.numbersGPUs()
	if !byCount && !byGPU {
		return nil
	}
	var all []Finding
	if byCount {
		all = append(all, s.gresTypes(conf))
	}
	file := path.Join(dir, "gres.conf")
	lines, err := slurm.Read(s.Root, file)
	if err != nil {
		return append(all, failed("gres.conf", err))
	}
	if byCount {
		all = append(all, s.gresConf(lines, conf)...)
	}
	if byGPU {
		all = append(all, s.gpus(lines)...)
	}
	return all
}

// numbersGPUs tells whether it matters how the node's GPUs are numbered.
func (s Site) numbersGPUs() bool {
	return len(s.Stock.GPUs) > 0 && !slices.ContainsFunc(s.Config.HCAs, func(h config.HCA) bool { return len(h.GPUs) > 0 })
}

// gpus holds the GPUs of gres.conf against those that the kernel has. What
// AutoDetect finds, it numbers by minor numbers too.
func (s Site) gpus(conf slurm.Conf) []Finding {
	const about = "gres.conf"
	devices, err := s.devices(conf, "gpu")
	switch {
	case err != nil:
		return []Finding{failed(about, err)}
	case len(devices) == 0:
		return nil
	case len(devices) > len(s.Stock.GPUs):
		return []Finding{fail(about, "correct it, or say in the [[hca]] entries which GPUs each serves (gpus = )", "it has %d gpu for this node, the kernel has %d: a job with GPU %d fails its prolog", len(devices), len(s.Stock.GPUs), len(s.Stock.GPUs))}
	}
	for i, d := range devices {
		if minor, is := strings.CutPrefix(d.file, "/dev/nvidia"); is && minor != strconv.Itoa(i) {
			return []Finding{fail(about, "say in the [[hca]] entries which GPUs each serves (gpus = )", "gpu %d is %s: HCAs would be told from another GPU", i, d.file)}
		}
	}
	return []Finding{ok(about, "%d gpu", len(devices))}
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

// device is one device of a GRES as gres.conf has it. File is empty where Count= is all.
type device struct{ kind, file string }

// gresConf holds gres.conf against the mapping: Slurm's index is that of the
// line, and must mean the same HCA here.
func (s Site) gresConf(lines, conf slurm.Conf) []Finding {
	if s.StockErr != nil || s.Drift != nil {
		return nil // there is no mapping to hold it against
	}
	var all []Finding
	for _, name := range s.Config.Slurm.Gres {
		devices, err := s.devices(lines, name)
		if err != nil {
			return []Finding{failed("gres.conf", err)}
		}
		held := s.compare(name, devices)
		all = append(all, held)
		if f, bad := s.promised(conf, name, len(devices)); bad && held.Level != Error {
			all = append(all, f)
		}
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
			list, err := slurm.ParseHostlist(hosts)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", l.File, l.Number, err)
			}
			if !list.Contains(s.Node) {
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

// promised holds what the node's line in slurm.conf has of a GRES against
// gres.conf. A node of which there is no such line says it itself.
func (s Site) promised(conf slurm.Conf, name string, have int) (f Finding, bad bool) {
	const about = "slurm.conf"
	line, defaults := "", ""
	found := false
	for _, l := range conf.All("nodename") {
		hosts, text := l.Keys[0].Value, l.Get("gres")
		if strings.EqualFold(hosts, "default") {
			defaults = cmp.Or(text, defaults)
			continue
		}
		if list, err := slurm.ParseHostlist(hosts); err == nil && list.Contains(s.Node) {
			line, found = cmp.Or(text, defaults), true
		}
	}
	if !found {
		return Finding{}, false
	}
	do := fmt.Sprintf("put Gres=%s:%d into the node's line", name, have)
	switch count, understood := countOf(line, name); {
	case !understood || count == have:
		return Finding{}, false
	case count == 0:
		return fail(about, do, "NodeName of %s has no %s: no job can ask for it", s.Node, name), true
	case count > have:
		return fail(about, do, "NodeName of %s has %d %s, gres.conf %d: slurmctld drains the node", s.Node, count, name, have), true
	default:
		return warn(about, do, "NodeName of %s has %d %s, gres.conf %d: the rest is never used", s.Node, count, name, have), true
	}
}

// countOf adds up what a list like "gpu:8,nic:hdr:2(S:0),nic" has of a GRES.
func countOf(list, name string) (count int, understood bool) {
	for rest, more := list, true; more; {
		var part string
		part, rest, more = slurm.CutOutside(rest, '(', ')')
		part, _, _ = strings.Cut(part, "(")
		fields := strings.Split(part, ":")
		if fields[0] != name {
			continue
		}
		last := fields[len(fields)-1]
		n, err := strconv.Atoi(last)
		switch {
		case err == nil:
			count += n
		case strings.TrimLeft(last, "0123456789") != last:
			return 0, false // 2K and the like
		default:
			count++
		}
	}
	return count, true
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
