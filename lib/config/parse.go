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
	maxIndex   = 4095 // of a GRES and of a GPU
	maxName    = 64
	minTimeout = 100 * time.Millisecond
	maxTimeout = maxDeadline / 2

	minDeadline = 10 * time.Second
	maxDeadline = time.Hour
)

// Parse parses what a configuration file has. name is the file's, for errors.
func Parse(data []byte, name string) (Config, error) {
	d, root, err := parseDocument(data, name)
	if err != nil {
		return Config{}, err
	}
	c := Default()
	c.Slurm.Timeout = 0
	root.allow("slurm", "deadline", "access", "limits", "environment", "hca", "policy", "log", "metrics", "accounting", "health", "rdma", "uplink", "overlay")
	c.Slurm.read(root.table("slurm"))
	c.Deadline.read(root.table("deadline"))
	c.Slurm.Timeout = cmp.Or(c.Slurm.Timeout, c.Deadline.Prolog/2)
	c.Access.read(root.table("access"))
	c.Limits.read(root.table("limits"))
	c.Environment.read(root.table("environment"))
	c.Log.read(root.table("log"))
	c.Metrics.read(root.table("metrics"))
	c.Accounting.read(root.table("accounting"))
	c.Health.read(root.table("health"))
	c.RDMA.read(root.table("rdma"))
	c.Uplink.read(root.table("uplink"))
	c.Overlay.read(root.table("overlay"))
	if c.Uplink.On() && c.Overlay.On() && c.Uplink.Name == c.Overlay.Interface {
		t, key := root.table("overlay"), "name"
		if _, there := t.values[key]; !there {
			t, key = root.table("uplink"), "name"
		}
		t.fail(key, "GN157 give each a name of its own", "%q is the name of both the uplink and the overlay", c.Uplink.Name)
	}
	for _, t := range root.tables("hca") {
		c.HCAs = append(c.HCAs, readHCA(t, c.Slurm.Gres))
	}
	for _, t := range root.tables("policy") {
		c.Policies = append(c.Policies, readPolicy(t, c.Slurm.Gres))
	}
	c.checkSources(root)
	c.checkPKeys(root)
	if err := d.first(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (s *Slurm) read(t table) {
	t.allow("gres", "source", "partial", "scontrol", "file", "program", "timeout", "drain_reason")
	if names, there := t.texts("gres"); there {
		s.Gres = names
		t.check("gres", checkNames(names))
	}
	if sources, there := t.texts("source"); there {
		s.Source = sources
		t.check("source", checkSources(sources))
	}
	if word, there := t.word("partial", PartialNone, PartialFirst); there {
		s.Partial = word
	}
	s.DrainReason, _ = value[bool](t, "drain_reason", "true or false")
	s.Scontrol = readPath(t, "scontrol")
	s.Program = readPath(t, "program")
	if text, there := t.text("file"); there {
		template, err := ParseTemplate(text)
		s.File = template
		t.check("file", err)
	}
	if text, there := t.text("timeout"); there {
		s.Timeout = readTime(t, "timeout", text, minTimeout, maxTimeout)
	}
}

func (d *Deadline) read(t table) {
	t.allow("prolog", "epilog")
	if text, there := t.text("prolog"); there {
		d.Prolog = readTime(t, "prolog", text, minDeadline, maxDeadline)
	}
	if text, there := t.text("epilog"); there {
		d.Epilog = readTime(t, "epilog", text, minDeadline, maxDeadline)
	}
}

// readPath is the path of a program; empty if there is none.
func readPath(t table, key string) string {
	path, _ := t.text(key)
	if path != "" && !filepath.IsAbs(path) {
		t.fail(key, "GN158 give the whole path: slurmd gives its prolog no PATH", "%q is not an absolute path", path)
	}
	return path
}

func readTime(t table, key, text string, shortest, longest time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < shortest || d > longest {
		t.fail(key, `GN159 write it like "5s" or "500ms"`, "%q is not a time from %s to %s", text, shortest, longest)
	}
	return d
}

func readHCA(t table, names []string) HCA {
	t.allow("gres", "type", "index", "match", "part", "count", "network", "gpus", "interface", "node", "vf", "pkey")
	t.require("index", "match")
	var h HCA
	h.Gres, h.Type = readGres(t, names)
	h.readPart(t)
	if index, there := t.number("index"); there {
		h.Index = index
		h.checkIndices(t)
	}
	if text, there := t.text("match"); there {
		m, err := ParseMatch(text)
		h.Match = m
		t.check("match", err)
		if err == nil {
			t.once("match", m.String())
			h.checkParent(t)
		}
	}
	if gpus, there := t.numbers("gpus"); there {
		h.GPUs = gpus
		h.checkGPUs(t)
	}
	if word, there := t.word("interface", Move.String(), Keep.String()); there && word == Keep.String() {
		h.Interface = Keep
	}
	word, _ := t.word("node", NodeKeep, NodeTake)
	h.Take = word == NodeTake
	h.VF.read(t.table("vf"))
	if h.Part != PartVF && h.VF != (VF{}) {
		t.fail("vf", `GN323 add part = "vf" and count, or leave it out`, "the HCA is no PF in parts")
	}
	return h
}

// readGres reads which GRES a table is about: the first of the site's names
// unless it says otherwise.
func readGres(t table, names []string) (name, kind string) {
	if len(names) > 0 {
		name = names[0]
	}
	if text, there := t.text("gres"); there {
		name = text
		if !slices.Contains(names, name) {
			t.fail("gres", "GN160 add it to slurm.gres, or correct it", "%q is not one of slurm.gres, %s", name, quoted(names))
		}
	}
	if text, there := t.text("type"); there {
		kind = text
		t.check("type", checkName(kind))
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
	hint := "GN163 sources are " + quoted(Sources())
	for _, s := range sources {
		if !slices.Contains(Sources(), s) {
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
	slurm := root.table("slurm")
	for _, s := range []struct {
		name string
		has  bool
		hint string
	}{
		{Fixed, slices.ContainsFunc(c.Policies, func(p Policy) bool { return !p.Silent }), "GN011 add a [[policy]], or leave it out of slurm.source"},
		{File, c.Slurm.File != "", `GN012 set slurm.file, like "/var/lib/gresnet/jobs/%j"`},
		{Program, c.Slurm.Program != "", "GN013 set slurm.program to the program's path"},
	} {
		if slices.Contains(c.Slurm.Source, s.name) && !s.has {
			slurm.fail("source", s.hint, "source %q has nothing to read", s.name)
		}
	}
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(out, ", ")
}
