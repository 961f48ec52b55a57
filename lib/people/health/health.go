// Package health finds what on a node watches HCAs, and would take one that is with a job for
// broken: checks of NHC's, and programs of the site's. It reads files and runs nothing.
package health

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/slurm/nhc"
)

// Node is a node with its files, and its HCAs.
type Node struct {
	Root      fs.FS
	Inventory report.Scan
}

// Miss is a check of NHC's that takes what is with a job for broken.
type Miss struct {
	Line  int
	Check string
	Why   string
	Sure  bool // it does; otherwise it may
}

// NHC looks in NHC's configuration for checks that miss what jobs have.
func (n Node) NHC(f nhc.Files, text string) (all []Miss) {
	functions := nhc.Functions(n.Root, f.Scripts)
	for _, line := range nhc.Lines(text, f.Host) {
		for _, words := range nhc.Commands(line.Check) {
			if why, sure := n.misses(words, functions); why != "" {
				all = append(all, Miss{line.Number, strings.Join(words, " "), why, sure})
			}
		}
	}
	return all
}

// ours tells whether a text asks gresnet who has which HCA.
func ours(text string) bool { return strings.Contains(text, "gresnet") }

// misses says what a command misses while jobs have HCAs, nothing if it does not care. check_hw_ib
// reads /sys/class/infiniband, check_hw_eth /proc/net/dev (NHC scripts/lbnl_hw.nhc). Of a check that
// is not NHC's own, its function is read, and those that it calls.
func (n Node) misses(words []string, functions map[string]string) (why string, sure bool) {
	name := words[0]
	if ours(strings.Join(words, " ")) {
		return "", true
	}
	for _, word := range words[1:] {
		if why := n.named(word); why != "" {
			return why, true
		}
	}
	if name == "check_hw_ib" {
		if len(words) < 3 && n.exclusive() && n.jobsHaveAll() {
			return "jobs have all HCAs", true
		}
		return "", true
	}
	if n.exclusive() && counts.MatchString(strings.Join(words[1:], " ")) {
		return "jobs have HCAs", true
	}
	if own.MatchString(name) {
		return n.script(words), false
	}
	return n.function(name, functions), false
}

// own are NHC's own checks, whose functions are not read: all of them that are about hardware read
// /sys/class/infiniband together with what they are after.
var own = regexp.MustCompile(`^check_(cmd|dmi|file|fs|job|moab|net|ps)_|^check_hw_(cpuinfo|physmem|swap|mem|physmem_free|swap_free|mem_free|ib|gm|eth|mcelog)$|^check_nv`)

// counts are programs that list the HCAs of a network namespace.
var counts = regexp.MustCompile(`\b(ibstat|ibstatus|ibv_devinfo|ibv_devices|ibdev2netdev|perfquery|rdma (link|dev))\b`)

// signs are what a script has that looks at HCAs. Jobs are in the way of the first ones in exclusive
// mode, and of the others in any.
var signs = []struct {
	sign   *regexp.Regexp
	shared bool
	why    string
}{
	{regexp.MustCompile(`\bib_(write|read|send|atomic)_(bw|lat)`), true, "it sends by HCAs that jobs use, or take meanwhile"},
	{regexp.MustCompile(`(?i)lost carrier`), true, "it counts carriers that interfaces lose when jobs take them"},
	{counts, false, "it lists HCAs"},
	{regexp.MustCompile(`/class/infiniband|\bHW_IB_|nccl_allreduce_ib`), false, "it looks at all HCAs"},
}

// after says what a script looks at that jobs take.
func (n Node) after(text string) string {
	for _, s := range signs {
		if (s.shared || n.exclusive()) && !ours(text) && s.sign.MatchString(text) {
			return s.why
		}
	}
	return ""
}

var (
	identifier = regexp.MustCompile(`[A-Za-z_][-A-Za-z0-9_]*`)
	speaking   = regexp.MustCompile(`(?i)(^|_)(ib|rdma|hcas?|infiniband|roce|opa|hfi|mlx\d?)(_|$)`)
)

// function reads a function of the site's, and all that it calls.
func (n Node) function(name string, functions map[string]string) string {
	if _, there := functions[name]; !there {
		if n.exclusive() && speaking.MatchString(name) {
			return "its name says that it looks at HCAs, and its function was not found"
		}
		return ""
	}
	var text strings.Builder
	seen := map[string]bool{}
	for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
		f, there := functions[todo[0]]
		if !there || seen[todo[0]] || strings.HasPrefix(todo[0], "nhc_hw_") || own.MatchString(todo[0]) {
			continue
		}
		seen[todo[0]] = true
		text.WriteString(f)
		todo = append(todo, identifier.FindAllString(f, -1)...)
	}
	return n.after(text.String())
}

// script reads scripts that a command names by their paths.
func (n Node) script(words []string) string {
	for _, word := range words[1:] {
		for _, file := range strings.Fields(word) {
			if why := n.after(n.Script(file)); path.IsAbs(file) && why != "" {
				return why
			}
		}
	}
	return ""
}

// Script returns the text of a script, nothing of another file.
func (n Node) Script(file string) string {
	text, err := fs.ReadFile(n.Root, strings.TrimPrefix(path.Clean(file), "/"))
	if err != nil || !strings.HasPrefix(string(text), "#!") {
		return ""
	}
	return string(text)
}

func (n Node) exclusive() bool { return n.Inventory.Mode == rdma.Exclusive }

func (n Node) jobsHaveAll() bool {
	return !slices.ContainsFunc(n.Inventory.HCAs, func(h report.HCA) bool { return h.Gres == "" })
}

// named says what a word names that jobs take: an HCA, as in mlx5_0:1 or a path, or an interface.
func (n Node) named(word string) string {
	for _, part := range strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t/:,;=\"'", r) }) {
		if n.exclusive() && n.maps(part) || n.moves(part) {
			return fmt.Sprintf("a job has %s", part)
		}
	}
	return ""
}

// maps tells whether jobs may have an HCA.
func (n Node) maps(name string) bool {
	return slices.ContainsFunc(n.Inventory.HCAs, func(h report.HCA) bool { return h.Name == name && h.Gres != "" })
}

// moves tells whether an interface goes into jobs.
func (n Node) moves(name string) bool {
	for _, h := range n.Inventory.HCAs {
		for _, p := range h.Ports {
			if p.Interface == name && h.Gres != "" && !h.Keep {
				return true
			}
		}
	}
	return false
}
