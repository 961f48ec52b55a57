// Package check finds what would go wrong before a job does. It reads files
// and what was seen of the node, asks no program, and changes nothing.
package check

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/lease/part"
	"gresnet/lib/lease/step"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/state"
)

// The levels of findings.
const (
	OK      = report.OK
	Warning = report.Warning
	Error   = report.Error
)

// Finding is what was found of one thing.
type Finding = report.Finding

func ok(about, format string, a ...any) Finding       { return report.Well(about, format, a...) }
func warn(about, do, format string, a ...any) Finding { return report.Warn(about, do, format, a...) }
func fail(about, do, format string, a ...any) Finding { return report.Fail(about, do, format, a...) }
func failed(about string, err error) Finding          { return report.FailBy(about, err) }

// Site is what is checked.
type Site struct {
	Root fs.FS // the node's files, from / on

	Config       config.Config
	ConfigErr    error // why there is none
	Inventory    report.Scan
	InventoryErr error             // why there is none
	Drift        error             // why the mapping does not hold
	Refusals     []inspect.Refusal // what HCAs of the mapping a prolog would refuse to give
	RefusalsErr  error             // why that is not known
	ScontrolErr  error             // why there is no scontrol, where it is asked
	ProgramErr   error             // why the site's program cannot be asked
	AccountErr   error             // why no job gets a line in the file of [accounting]
	Unknown      []error           // what cannot be told of the addresses that are reserved for the host

	GuardErr error // why the kernel takes no guard of device nodes

	Uplinks    *jobnet.Pool // where jobs get their uplinks from; nil: they have none
	UplinksErr error        // why there is none
	Unjudged   []string     // interfaces that lead out and lack the programs of running jobs
	Lost       []Lost
	LostErr    error    // why that is not known
	Bypassed   []string // chains of nftables that drop what the node sends, and do not see what jobs send
	OverlayErr error    // why jobs cannot have an overlay as the site wants it

	Node      string // Slurm's name for the node
	SlurmConf string // path of slurm.conf; empty: look in the usual places
	State     string // the state directory
	StateOn   string // the kind of its file system, if that outlives a boot
	Free      uint64 // bytes that are free where it is

	Bounds   []inspect.BoundUnit
	BoundErr error // why that is not known

	Records state.Seen // what the last prolog and epilog left
}

// refusals returns the prolog's own, before a job meets them.
func (s Site) refusals() []Finding {
	if s.RefusalsErr != nil && s.Drift == nil {
		return []Finding{failed("HCAs", s.RefusalsErr)}
	}
	var all []Finding
	for _, r := range s.Refusals {
		do := cmp.Or(hint.Whole(r.Err), "GN060 undo that on the node, or leave the HCA out: gresnet scan --toml lists the others")
		h := r.Entry.HCA
		all = append(all, fail(h.Name, do, "a job that gets %s fails its prolog: %s", r.Entry, r.Err).Of(h.Name, h.ID))
	}
	for _, err := range s.Unknown {
		all = append(all, warn("guard", "GN061 write an address in slurm.conf, like NodeAddr=10.0.0.2 or SlurmctldHost=ctl(10.0.0.1); see SLURM_CONF",
			"no job gets an interface that may lead there: %s", err))
	}
	return all
}

// Run checks everything. What hangs on something that failed is left out.
func (s Site) Run() []Finding {
	var all []Finding
	if s.ConfigErr == nil {
		all = []Finding{ok("configuration", "it can be read")}
	}
	for _, err := range hint.Each(s.ConfigErr) {
		all = append(all, failed("configuration", err))
	}
	all = append(all, s.state())
	all = append(all, s.kernel()...)
	if s.InventoryErr == nil && s.ConfigErr == nil {
		all = slices.Concat(all, s.mapping(), s.parts(), s.refusals(), s.restricted(), s.guard(), s.managers(), s.bound(),
			s.counters(), s.networks())
	}
	for _, asked := range []struct {
		about string
		err   error
	}{{"slurm.source", s.ScontrolErr}, {"slurm.source", s.ProgramErr}, {"hooks", step.CheckHooks(s.Config.Hooks)}} {
		if asked.err != nil {
			all = append(all, failed(asked.about, asked.err))
		}
	}
	if s.ConfigErr == nil {
		all = slices.Concat(all, s.limits(), s.metrics())
	}
	if s.AccountErr != nil {
		all = append(all, failed("accounting", fmt.Errorf("no job has a line: %w", s.AccountErr)))
	}
	return append(all, s.slurm()...)
}

// networks checks what jobs' own networks need, where jobs have one.
func (s Site) networks() []Finding {
	if s.Config.MovesNothing() {
		return nil
	}
	return slices.Concat(s.uplinks(), s.overlays(), s.firewall())
}

// parts finds parts of HCAs that jobs cannot have as the configuration says.
func (s Site) parts() (all []Finding) {
	for _, err := range part.Problems(s.Config, s.Inventory) {
		f := failed("parts", err)
		if part.MayBeMeant(err) {
			f.Level = Warning
		}
		all = append(all, f)
	}
	return all
}

// Bad returns the findings that are not well.
func Bad(all []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Level == OK })
}

// Errors counts the errors.
func Errors(all []Finding) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Level != Error }))
}

// Print prints a line for each finding.
func Print(w io.Writer, all []Finding) error {
	for _, f := range all {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	return nil
}

// least is the space that the leases of a node full of jobs need, with journals and device nodes.
const least = 16 << 20

// state checks that the state directory has room, and ends with the boot, as the namespaces do that
// it describes.
func (s Site) state() Finding {
	switch {
	case s.StateOn != "":
		return fail("state", "GN062 put the state directory on tmpfs: --state and the plugin's state= in /run, or mount -t tmpfs tmpfs "+s.State, "%s is on %s, which keeps it over a reboot: the namespaces that it tells of are gone then", s.State, s.StateOn)
	case s.Free < least:
		return fail("state", "GN063 make room: a prolog that cannot write fails, and drains the node", "%s has %d KiB left", s.State, s.Free>>10)
	}
	return ok("state", "%s has %d MiB left", s.State, s.Free>>20)
}

// metrics must have a folder to be in.
func (s Site) metrics() []Finding {
	file := s.Config.Metrics.File
	if file == "" {
		return nil
	}
	dir := path.Dir(file)
	info, err := fs.Stat(s.Root, strings.TrimPrefix(dir, "/"))
	if err != nil || !info.IsDir() {
		return []Finding{fail("metrics", "GN064 mkdir -p "+dir+", or correct file in [metrics]", "%s is no folder: nothing is counted", dir)}
	}
	return nil
}

// mapping holds the mapping against the node.
func (s Site) mapping() []Finding {
	if s.Drift != nil {
		return []Finding{failed("mapping", s.Drift)}
	}
	var all []Finding
	for _, h := range s.Inventory.HCAs {
		if h.Gres != "" && h.VFs != nil && h.VFs.Now > 0 {
			all = append(all, warn("mapping", "GN065 list its VFs in [[hca]] in its place, or do without: echo 0 >/sys/bus/pci/devices/"+h.ID.PCI+"/sriov_numvfs",
				"jobs get %s as a whole, though it has VFs (%d)", h.Name, h.VFs.Now).Of(h.Name, h.ID))
		}
		split := slices.ContainsFunc(s.Config.HCAs, func(c config.HCA) bool { return c.Splits(h.ID) })
		if h.Gres == "" && !h.ID.Kind().Splits() && !split && !h.Away { // a site need not give its VFs to jobs
			all = append(all, warn("mapping", "GN066 add an [[hca]] for it, if jobs are to have it (gresnet scan --toml)", "%s (%s) is in no [[hca]]", h.Name, h.ID).Of(h.Name, h.ID))
		}
	}
	mapped := s.mapped()
	if mapped == 0 {
		return append(all, warn("mapping", "GN067 see whether the HCAs' driver is loaded", "the node has no HCA for jobs"))
	}
	all = append(all, ok("mapping", "%d HCAs", mapped))
	if slices.Equal(s.Config.Slurm.Source, []string{config.GPU}) && len(s.Inventory.GPUs) == 0 {
		all = append(all, warn("slurm.source", `GN068 add "scontrol", or another source that knows such jobs`, "the node has no GPU, and jobs without GPUs get no HCA"))
	}
	return append(all, s.policies()...)
}

// policies holds the policies against the mapping: what cannot be had while
// no job has any HCA, no job gets.
func (s Site) policies() []Finding {
	var m gres.Mapping
	for _, h := range s.Inventory.HCAs {
		if h.Gres != "" {
			m = append(m, gres.Entry{Gres: h.Gres, Type: h.Type, Index: h.Number(), HCA: node.HCA{ID: h.ID, Name: h.Name}})
		}
	}
	free := func(node.ID) (gres.Holder, bool) { return gres.Holder{}, false }
	var all []Finding
	for i, p := range s.Config.Policies {
		if p.Silent || len(p.Indices) == 0 && p.Count == 0 {
			continue
		}
		w := gres.Want{Gres: p.Gres, Type: p.Type, Indices: p.Indices, Count: p.Count, Source: config.Fixed}
		if _, err := gres.Choose([]gres.Want{w}, m, free, nil); err != nil {
			all = append(all, fail("policy "+strconv.Itoa(i+1), "GN069 correct it: jobs that it fits are refused here", "%s", err))
		}
	}
	return all
}
