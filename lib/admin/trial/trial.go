// Package trial has the installed prolog and epilog take HCAs for a job that Slurm does not have and give
// them back, looks at them from inside, and compares the node with what it was: gresnet try. Whoever has the
// hardware proves by it what the tests prove with stubs.
//
// The trial stands in for slurmd (programs.go). What looks as a task does is a process of its own (part.go).
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/program"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
)

// Trial is one call of gresnet try.
type Trial struct {
	Host           *host.Host
	Config         string   // path of the site's configuration; empty: it has none
	Prolog, Epilog string   // paths of the installed programs
	Self           string   // the program that plays a task's part
	Names          []string // of HCAs; none: all that jobs can have
	Rounds         int      // how often each HCA goes into a job and comes back; 1 at least
	Kills          int      // how often a prolog or an epilog is killed after that
	Together       bool     // all HCAs go into one job
	Peer           string   // the host to which each sends from the job; empty: none
	Version        string   // gresnet's
	Say            func(format string, a ...any)

	state  state.Dir // of the trial's lease
	album  album
	cgroup string                   // that stands for the job's; empty: the node has no cgroup v2
	took   map[string]time.Duration // by program: the quickest run
	report *report.Trial
}

// hca is an HCA that is tried.
type hca struct {
	*report.Tried
	gres.Entry
	interfaces []string // of its ports
	moves      bool     // these go into the job as they are
	before     sight    // what the node saw
}

func (h *hca) fault(format string, a ...any) { h.Faults = append(h.Faults, fmt.Sprintf(format, a...)) }

// Run tries the HCAs and returns what it found. It fails if it could not begin, or if a lease remains.
func (t *Trial) Run(ctx context.Context) (*report.Trial, error) {
	t.took = map[string]time.Duration{}
	t.report = &report.Trial{Gresnet: t.Version, Kernel: read("/proc/sys/kernel/osrelease"), Slurm: slurmVersion(ctx)}
	if t.Rounds < 1 || t.Kills < 0 {
		return nil, hint.With(errors.New("--rounds must be 1 or more, --kill 0 or more"), "GN634 see gresnet try --help")
	}
	if err := hint.Join(t.checkPeer(), isIdle()); err != nil {
		return nil, err
	}
	end, err := t.begin()
	if err != nil {
		return nil, err
	}
	err = hint.Join(t.tryAll(ctx), end())
	if len(t.report.HCAs) == 0 {
		return nil, err
	}
	return t.report, err
}

// slurmVersion returns the version of the node's Slurm, if it has one.
func slurmVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, poll.SlurmConf)
	defer cancel()
	out, err := program.Program{Path: "slurmd", Args: []string{"-V"}, Max: 1 << 10}.Run(ctx)
	words := strings.Fields(out) // slurm 24.11.5
	if err != nil || len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// card returns what says which card an RDMA device is: 15b3:1021 MT_0000000838.
func card(name string) string {
	folder := filepath.Join("/sys/class/infiniband", name)
	var words []string
	vendor, device := read(filepath.Join(folder, "device/vendor")), read(filepath.Join(folder, "device/device"))
	if vendor != "" && device != "" {
		words = append(words, strings.TrimPrefix(vendor, "0x")+":"+strings.TrimPrefix(device, "0x"))
	}
	if board := read(filepath.Join(folder, "board_id")); board != "" {
		words = append(words, board)
	}
	return strings.Join(words, " ")
}

// isIdle fails if jobs run on the node: what they change would look like a fault.
func isIdle() error {
	steps, err := proc.LookForSteps()
	if err != nil {
		return err
	}
	if jobs := steps.Jobs(); len(jobs) > 0 {
		err := fmt.Errorf("these jobs run on this node: %s", strings.Trim(fmt.Sprint(jobs), "[]"))
		return hint.With(err, "GN631 drain the node (scontrol update nodename=… state=drain reason=try), wait for its jobs, then run it again")
	}
	return nil
}

func (t *Trial) tryAll(ctx context.Context) error {
	if t.lease().Exists() {
		t.Say("returns what an earlier try left")
		if err := t.returnAll(); err != nil {
			return err
		}
	}
	if err := lease.On(t.Host).Idle(ctx); err != nil {
		return err
	}
	hcas, err := t.choose(ctx)
	if err != nil {
		return err
	}
	t.Say("takes a picture of the node")
	t.report.Unread, t.report.Restless = t.album.begin()
	var groups [][]*hca
	for _, h := range hcas {
		together := func(group []*hca) bool { return t.Together && group[0].Gres == h.Gres }
		switch i := slices.IndexFunc(groups, together); {
		case h.Refused != "":
		case i >= 0:
			groups[i] = append(groups[i], h)
		default:
			groups = append(groups, []*hca{h})
		}
	}
	for _, group := range groups {
		if err = t.try(ctx, group); err != nil {
			break // a lease that remains is in the way of the next one
		}
	}
	for _, h := range hcas {
		h.Judge(h.Rounds == t.Rounds && h.Kills == t.Kills)
		t.report.HCAs = append(t.report.HCAs, *h.Tried)
	}
	return err
}

// choose returns the HCAs to try, and notes why a prolog refuses some.
func (t *Trial) choose(ctx context.Context) (hcas []*hca, err error) {
	s, drift, err := inspect.Inventory(t.Host)
	if err = hint.Join(err, drift); err != nil {
		return nil, err
	}
	m, err := t.Host.Mapping()
	if err != nil {
		return nil, err
	}
	refusals, _, err := inspect.Refusals(ctx, t.Host)
	if err != nil {
		return nil, err
	}
	t.report.Mode = s.Mode
	missing := slices.Clone(t.Names)
	for _, e := range m {
		if e.Drift != nil || e.Slot != nil && e.Slot.Number > 0 {
			continue
		}
		named := func(name string) bool {
			return slices.Contains([]string{e.HCA.Name, e.HCA.NodeGUID(), e.HCA.PCI(), e.HCA.ID.String()}, name)
		}
		if len(t.Names) > 0 && !slices.ContainsFunc(t.Names, named) {
			continue
		}
		missing = slices.DeleteFunc(missing, named)
		h := &hca{Tried: &report.Tried{Name: e.HCA.Name, Together: t.Together}, Entry: e}
		h.moves = !e.Keep && e.Slot == nil && !e.Kind().Splits() && t.Host.Config.Access.Isolation != config.IsolateDevices
		i := slices.IndexFunc(s.HCAs, func(o report.HCA) bool { return o.Name == h.Name && o.ID.Whole() == e.HCA.ID.Whole() })
		if i >= 0 {
			h.Driver = s.HCAs[i].Driver
			for _, p := range s.HCAs[i].Ports {
				h.Links = append(h.Links, p.LinkLayer)
				if p.Interface != "" {
					h.interfaces = append(h.interfaces, p.Interface)
				}
			}
		}
		h.Firmware, h.Card = read(filepath.Join("/sys/class/infiniband", h.Name, "fw_ver")), card(h.Name)
		if link, err := os.Readlink(filepath.Join("/sys/class/infiniband", h.Name, "device/driver")); err == nil {
			h.Driver = cmp.Or(h.Driver, filepath.Base(link)) // the kernel has no number for it
		}
		for _, r := range refusals {
			if r.Entry.HCA.ID == e.HCA.ID {
				h.Refused = told(r.Err)
			}
		}
		hcas = append(hcas, h)
	}
	if len(missing) > 0 {
		return nil, hint.With(fmt.Errorf("no job can have %s", strings.Join(missing, ", ")), "GN632 gresnet scan lists the HCAs, and which GRES they are")
	}
	if len(hcas) == 0 {
		return nil, hint.With(errors.New("there is no HCA that a job can have"), "GN633 gresnet scan lists the HCAs; [[hca]] says which of them jobs get")
	}
	return hcas, nil
}

// try tries HCAs that go into one job. It fails if the lease remains.
func (t *Trial) try(ctx context.Context, group []*hca) error {
	for _, h := range group {
		h.before = see()
	}
	for i := 1; i <= t.Rounds && ctx.Err() == nil; i++ {
		t.Say("%s: round %d of %d", nameOf(group), i, t.Rounds)
		ended, err := t.round(ctx, group, nil)
		if err != nil || !ended {
			return err
		}
		for _, h := range group {
			h.Rounds++
		}
	}
	for i := 1; i <= t.Kills && ctx.Err() == nil; i++ {
		what := []string{t.Prolog, t.Epilog}[rand.N(2)]
		after := rand.N(max(time.Millisecond, t.took[what]))
		t.Say("%s: kill %d of %d: of %s, after %s", nameOf(group), i, t.Kills, filepath.Base(what), after.Round(time.Millisecond))
		kill := map[string]time.Duration{what: after}
		ended, err := t.round(ctx, group, kill)
		if err != nil || !ended {
			return err
		}
		for _, h := range group {
			h.Kills++
		}
	}
	return nil
}

// round has a prolog take the HCAs, looks at them from inside, has an epilog return them, and compares.
// A program that kill names is killed after a time. ended tells that the round came to its end and found the
// prolog in order.
func (t *Trial) round(ctx context.Context, group []*hca, kill map[string]time.Duration) (ended bool, err error) {
	if err := t.configure(group); err != nil {
		return false, err
	}
	took := t.run(ctx, t.Prolog, kill[t.Prolog])
	ended = (took.fault == "" || took.killed) && ctx.Err() == nil
	switch {
	case took.killed || ctx.Err() != nil:
	case took.fault != "":
		t.blame(group, "prolog: "+took.fault)
	default:
		t.blame(group, took.warnings...)
		t.lookInside(group)
		t.send(ctx, group)
	}
	if kill[t.Epilog] > 0 && ended {
		t.run(context.Background(), t.Epilog, kill[t.Epilog])
	}
	began := time.Now()
	left := t.returnAll(group...)
	out := time.Since(began)
	t.compare(group)
	for _, h := range group {
		if ended && len(kill) == 0 {
			h.In, h.Out = max(h.In, took.time.Seconds()), max(h.Out, out.Seconds())
		}
	}
	return ended && len(group[0].Faults) == 0, left
}

// returnAll has an epilog return the HCAs of the trial's job. It fails if the lease remains.
func (t *Trial) returnAll(group ...*hca) error {
	gave := t.run(context.Background(), t.Epilog, 0)
	t.blame(group, gave.warnings...)
	if gave.fault != "" {
		t.blame(group, "epilog: "+gave.fault)
	}
	if !t.lease().Exists() {
		return nil
	}
	return fmt.Errorf("%w: %s", lease.ErrRemains, strings.TrimPrefix(gave.fault, lease.ErrRemains.Error()+": "))
}

// blame puts faults down to the HCAs that they name, or to all of a group if they name none.
func (t *Trial) blame(group []*hca, faults ...string) {
	for _, text := range faults {
		t.put(group, text, func(h *hca) { h.fault("%s", text) })
	}
}

// compare compares the node with what it was, when the links are up again.
func (t *Trial) compare(group []*hca) {
	training := t.awaitLinks(group)
	lines := t.album.differences()
	for _, h := range group {
		h.Training = max(h.Training, training.Seconds())
		h.Differences = nil // they are what the node has now
	}
	for _, line := range lines {
		t.put(group, line, func(h *hca) { h.Differences = append(h.Differences, line) })
	}
}

func (t *Trial) put(group []*hca, text string, to func(*hca)) {
	some := false
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(` "',:/[](){}`, r) })
	for _, h := range group {
		if slices.ContainsFunc(append([]string{h.Name}, h.interfaces...), func(name string) bool { return slices.Contains(words, name) }) {
			some = true
			to(h)
		}
	}
	for _, h := range group {
		if !some {
			to(h)
		}
	}
}

func nameOf(group []*hca) string {
	var names []string
	for _, h := range group {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

func (t *Trial) isExclusive() bool { return t.report.Mode == rdma.Exclusive }
