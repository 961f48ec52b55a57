package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of what can be meant.
const (
	maxName    = 64
	minTimeout = 100 * time.Millisecond
	maxTimeout = maxDeadline / 2

	minDeadline = 10 * time.Second
	maxDeadline = time.Hour
)

// Parse parses what a configuration file has. name is the file's, for errors.
func Parse(data []byte, name string) (Config, error) {
	d, root, err := parseTOML(data, name)
	if err != nil {
		return Config{}, err
	}
	c := Default()
	c.Slurm.Timeout = 0
	root.Allow("slurm", "deadline", "access", "limits", "environment", "hca", "policy", "log", "metrics", "accounting", "health", "hooks", "rdma", "uplink", "overlay")
	c.Slurm.read(root.Table("slurm"))
	c.Deadline.read(root.Table("deadline"))
	c.Slurm.Timeout = cmp.Or(c.Slurm.Timeout, c.Deadline.Prolog/2)
	c.Access.read(root.Table("access"))
	c.Limits.read(root.Table("limits"))
	c.Environment.read(root.Table("environment"))
	c.Log.read(root.Table("log"))
	c.Metrics.read(root.Table("metrics"))
	c.Accounting.read(root.Table("accounting"))
	c.Health.read(root.Table("health"))
	c.Hooks.read(root.Table("hooks"))
	c.RDMA.read(root.Table("rdma"))
	c.Uplink.read(root.Table("uplink"))
	c.Overlay.read(root.Table("overlay"))
	if c.Uplink.On() && c.Overlay.On() && c.Uplink.Name == c.Overlay.Interface {
		root.Table("overlay").Fail("name", "GN157 give each a name of its own", "%q is the name of both the uplink and the overlay", c.Uplink.Name)
	}
	for _, t := range root.Tables("hca") {
		c.HCAs = append(c.HCAs, readHCA(t, c.Slurm.Gres))
	}
	for _, t := range root.Tables("policy") {
		c.Policies = append(c.Policies, readPolicy(t, c.Slurm.Gres))
	}
	c.checkSources(root)
	c.checkPKeys(root)
	if err := d.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (s *Slurm) read(t table) {
	t.Allow(
		// `["nic"]` | GRES names that mean an HCA
		"gres",
		// `["scontrol", "gpu"]` | which sources say what a job gets, in this order: see below
		"source",
		// `"none"` | if a job has only some of the GPUs that an HCA serves, it does not get the HCA;
		// `"first"`: the first job that has one of them gets it
		"partial",
		// | path of `scontrol`, if it is not in the usual places
		"scontrol",
		// | path of a program of the site's, for source `program`
		"program",
		// `"50s"` | how long all tries of `scontrol`, or of the site's program, may take together: 100ms to
		// 30m, without the key half of `deadline.prolog`. Let it be longer than a failover of slurmctld
		// (`SlurmctldTimeout`)
		"timeout",
		// `false` | with `true` a prolog that fails tells slurmctld why, by two RPCs and in five seconds at most:
		// [`sinfo -R`](trouble.md#why-a-node-is-drained-in-sinfo--r) then shows it. A reason that the node has
		// already stays
		"drain_reason",
		// `"slurm"` | a job has the HCAs of the indices that Slurm gave it; `"near"`: as many free HCAs of
		// the same type, nearest to its GPUs and cores
		"index",
	)
	if names, there := t.Texts("gres"); there {
		s.Gres = names
		t.Check("gres", checkNames(names))
	}
	if sources, there := t.Texts("source"); there {
		s.Source = sources
		t.Check("source", checkSources(sources))
	}
	t.Choose("partial", &s.Partial, PartialNone, PartialFirst)
	t.Choose("index", &s.Index, IndexSlurm, IndexNear)
	s.DrainReason, _ = valueOf[bool](t, "drain_reason", "true or false")
	s.Scontrol = readPath(t, "scontrol")
	s.Program = readPath(t, "program")
	readTime(t, "timeout", &s.Timeout, minTimeout, maxTimeout)
}

func (d *Deadline) read(t table) {
	t.Allow(
		// `"100s"` | how long a prolog may take in all, 10s to 1h: half for its work, half to undo it
		"prolog",
		// `"100s"` | how long an epilog may take in all, 10s to 1h: at most half to wait for a prolog or a
		// cleanup of the job, the rest to undo. The next run continues where this one stopped
		"epilog",
	)
	readTime(t, "prolog", &d.Prolog, minDeadline, maxDeadline)
	readTime(t, "epilog", &d.Epilog, minDeadline, maxDeadline)
}

// readPath returns the path of a program; empty if there is none.
func readPath(t table, key string) string {
	path, _ := t.Text(key)
	if path != "" && !filepath.IsAbs(path) {
		t.Fail(key, "GN158 give the whole path: slurmd gives its prolog no PATH", "%q is not an absolute path", path)
	}
	return path
}

// readTime reads a time, if the key is there.
func readTime(t table, key string, into *time.Duration, shortest, longest time.Duration) {
	text, there := t.Text(key)
	if !there {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < shortest || d > longest {
		t.Fail(key, `GN159 write a time between these two, like "20s"`, "%q is not a time from %s to %s", text, shortest, longest)
	}
	*into = d
}

func readHCA(t table, names []string) HCA {
	t.Allow(
		// the first of `slurm.gres` | the GRES name
		"gres",
		// | the GRES type, if gres.conf has one. Either all HCAs of a GRES name have a type, or none; those of
		// one type have consecutive numbers
		"type",
		// must be there | Slurm's index of it, 0 to 4095, over all types of the GRES name
		"index",
		// must be there | which one: `"pci=0000:3b:00.0"`, `"guid=0002:c903:00ab:cdef"` or `"rdma=mlx5_0"`:
		// the HCA that had this name at the first lease of the boot or, if none had, has it now
		"match",
		// | which share of it a job gets: without the key all of it; `"vf"`: one of its [VFs](#vfs), `match`
		// is the PF's PCI address; in shared mode one of its [slots](#slots-several-jobs-on-one-hca):
		// `"macvlan"`, `"ipvlan"`, `"pkey"` or `"shared"`. In exclusive mode `"pkey"` with `count = 1` is [all
		// of it, and an interface for a partition](#a-whole-hca-for-a-partition)
		"part",
		// must be there with `part`, except `"shared"` | how many parts it has, 256 slots at most: part
		// *n* is GRES `index` + *n*
		"count",
		// | with `"macvlan"`, `"ipvlan"` and `"pkey"`: the network of the slots' IPv4 addresses; without it
		// they have link-local ones
		"network",
		// the nearest GPUs, if no entry has the key | Slurm's indices of the GPUs that it serves; with
		// more than one part, one for each part, in their order
		"gpus",
		// `"move"` | `"keep"`: its network interface stays in the root namespace
		"interface",
		// `"keep"` | no job gets an HCA whose interface [is reserved for the host](#what-is-reserved-for-the-host);
		// `"take"`: jobs get it nevertheless
		"node",
		// | [what the PF does for its VFs](#what-the-pf-does-for-a-vf) while jobs have them, with `part =
		// "vf"`
		"vf",
		// | the [P_Key](#slots-for-partitions-p_keys) of its slots, like `0x8001`, with `part = "pkey"`
		"pkey",
	)
	t.Require("index", "match")
	var h HCA
	h.Gres, h.Type = readGres(t, names)
	h.readPart(t)
	if index, there := t.Number("index"); there {
		h.Index = index
		h.checkIndices(t)
	}
	if text, there := t.Text("match"); there {
		m, err := parseMatch(text)
		h.Match = m
		t.Check("match", err)
		if err == nil {
			t.Once("match", m.String())
			h.checkParent(t)
		}
	}
	if gpus, there := t.Numbers("gpus"); there {
		h.GPUs = gpus
		h.checkGPUs(t)
	}
	if word, there := t.Word("interface", Move.String(), Keep.String()); there && word == Keep.String() {
		h.Interface = Keep
	}
	word, _ := t.Word("node", nodeKeep, nodeTake)
	h.Take = word == nodeTake
	h.VF.read(t.Table("vf"))
	if !h.Kind().Has("vf") && h.VF != (VF{}) {
		t.Fail("vf", `GN323 add part = "vf" and count, or leave it out`, "the HCA is no PF in parts")
	}
	return h
}

// readGres reads which GRES a table is about: the first of the site's names
// unless it says otherwise.
func readGres(t table, names []string) (name, kind string) {
	if len(names) > 0 {
		name = names[0]
	}
	if text, there := t.Text("gres"); there {
		name = text
		if !slices.Contains(names, name) {
			t.Fail("gres", "GN160 add it to slurm.gres, or correct it", "%q is not one of slurm.gres, %s", name, quoted(names))
		}
	}
	if text, there := t.Text("type"); there {
		kind = text
		t.Check("type", checkName(kind))
	}
	return name, kind
}

func checkNames(names []string) error {
	if len(names) == 0 {
		return fault("the list is empty", "GN161 name the GRES that means an HCA; it is \"nic\" unless said otherwise")
	}
	for _, n := range names {
		if err := checkName(n); err != nil {
			return err
		}
	}
	return nil
}

// checkName keeps to what Slurm's own syntax of a GRES leaves to a name:
// name:type:count, in lists with commas, details in parentheses.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fault(fmt.Sprintf("%q is not 1 to %d characters long", name, maxName), "")
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("_-.", rune(c)) {
			return fault(fmt.Sprintf("%q is no name of a GRES", name), "GN162 use letters, digits, and _ - .")
		}
	}
	return nil
}

func checkSources(sources []string) error {
	hint := "GN163 sources are " + quoted(allSources())
	for _, s := range sources {
		if !slices.Contains(allSources(), s) {
			return fault(fmt.Sprintf("unknown source %q", s), hint)
		}
	}
	if len(sources) == 0 {
		return fault("the list is empty", hint)
	}
	return nil
}

// checkSources notes sources that lack what they would read.
func (c *Config) checkSources(root table) {
	slurm := root.Table("slurm")
	for _, s := range []struct {
		name string
		has  bool // or says something about it that is reported already
		hint string
	}{
		{Fixed, slices.ContainsFunc(c.Policies, func(p Policy) bool { return !p.Silent }), "GN011 add a [[policy]], or leave it out of slurm.source"},
		{Program, slurm.Has("program"), "GN013 set slurm.program to the program's path"},
	} {
		if slices.Contains(c.Slurm.Source, s.name) && !s.has {
			slurm.Fail("source", s.hint, "source %q has nothing to read", s.name)
		}
	}
}
