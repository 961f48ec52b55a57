package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gresnet/lib/document"
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
	d, root, err := document.Parse(data, name)
	if err != nil {
		return Config{}, err
	}
	c := Default()
	c.Slurm.Timeout = 0
	root.Allow("slurm", "deadline", "access", "limits", "environment", "hca", "policy", "log", "metrics", "accounting", "health", "rdma", "uplink", "overlay")
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
	if err := d.First(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (s *Slurm) read(t document.Table) {
	t.Allow("gres", "source", "partial", "scontrol", "file", "program", "timeout", "drain_reason", "index")
	if names, there := t.Texts("gres"); there {
		s.Gres = names
		t.Check("gres", checkNames(names))
	}
	if sources, there := t.Texts("source"); there {
		s.Source = sources
		t.Check("source", checkSources(sources))
	}
	if word, there := t.Word("partial", PartialNone, PartialFirst); there {
		s.Partial = word
	}
	if word, there := t.Word("index", IndexSlurm, IndexNear); there {
		s.Index = word
	}
	s.DrainReason, _ = document.Value[bool](t, "drain_reason", "true or false")
	s.Scontrol = readPath(t, "scontrol")
	s.Program = readPath(t, "program")
	if text, there := t.Text("file"); there {
		template, err := ParseTemplate(text)
		s.File = template
		t.Check("file", err)
	}
	if text, there := t.Text("timeout"); there {
		s.Timeout = readTime(t, "timeout", text, minTimeout, maxTimeout)
	}
}

func (d *Deadline) read(t document.Table) {
	t.Allow("prolog", "epilog")
	if text, there := t.Text("prolog"); there {
		d.Prolog = readTime(t, "prolog", text, minDeadline, maxDeadline)
	}
	if text, there := t.Text("epilog"); there {
		d.Epilog = readTime(t, "epilog", text, minDeadline, maxDeadline)
	}
}

// readPath is the path of a program; empty if there is none.
func readPath(t document.Table, key string) string {
	path, _ := t.Text(key)
	if path != "" && !filepath.IsAbs(path) {
		t.Fail(key, "GN158 give the whole path: slurmd gives its prolog no PATH", "%q is not an absolute path", path)
	}
	return path
}

func readTime(t document.Table, key, text string, shortest, longest time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < shortest || d > longest {
		t.Fail(key, `GN159 write it like "5s" or "500ms"`, "%q is not a time from %s to %s", text, shortest, longest)
	}
	return d
}

func readHCA(t document.Table, names []string) HCA {
	t.Allow("gres", "type", "index", "match", "part", "count", "network", "gpus", "interface", "node", "vf", "pkey")
	t.Require("index", "match")
	var h HCA
	h.Gres, h.Type = readGres(t, names)
	h.readPart(t)
	if index, there := t.Number("index"); there {
		h.Index = index
		h.checkIndices(t)
	}
	if text, there := t.Text("match"); there {
		m, err := ParseMatch(text)
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
	word, _ := t.Word("node", NodeKeep, NodeTake)
	h.Take = word == NodeTake
	h.VF.read(t.Table("vf"))
	if h.Part != PartVF && h.VF != (VF{}) {
		t.Fail("vf", `GN323 add part = "vf" and count, or leave it out`, "the HCA is no PF in parts")
	}
	return h
}

// readGres reads which GRES a table is about: the first of the site's names
// unless it says otherwise.
func readGres(t document.Table, names []string) (name, kind string) {
	if len(names) > 0 {
		name = names[0]
	}
	if text, there := t.Text("gres"); there {
		name = text
		if !slices.Contains(names, name) {
			t.Fail("gres", "GN160 add it to slurm.gres, or correct it", "%q is not one of slurm.gres, %s", name, document.Quoted(names))
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
		return document.Fault("the list is empty", "GN161 name the GRES that means an HCA; it is \"nic\" unless said otherwise")
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
		return document.Fault(fmt.Sprintf("%q is not 1 to %d characters long", name, maxName), "")
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("_-.", rune(c)) {
			return document.Fault(fmt.Sprintf("%q is no name of a GRES", name), "GN162 use letters, digits, and _ - .")
		}
	}
	return nil
}

func checkSources(sources []string) error {
	hint := "GN163 sources are " + document.Quoted(Sources())
	for _, s := range sources {
		if !slices.Contains(Sources(), s) {
			return document.Fault(fmt.Sprintf("unknown source %q", s), hint)
		}
	}
	if len(sources) == 0 {
		return document.Fault("the list is empty", hint)
	}
	return nil
}

// checkSources notes sources that lack what they would read.
func (c *Config) checkSources(root document.Table) {
	slurm := root.Table("slurm")
	for _, s := range []struct {
		name string
		has  bool // or says something about it that is reported already
		hint string
	}{
		{Fixed, slices.ContainsFunc(c.Policies, func(p Policy) bool { return !p.Silent }), "GN011 add a [[policy]], or leave it out of slurm.source"},
		{File, slurm.Has("file"), `GN012 set slurm.file, like "/var/lib/gresnet/jobs/%j"`},
		{Program, slurm.Has("program"), "GN013 set slurm.program to the program's path"},
	} {
		if slices.Contains(c.Slurm.Source, s.name) && !s.has {
			slurm.Fail("source", s.hint, "source %q has nothing to read", s.name)
		}
	}
}
