// Package trial takes HCAs for a job that Slurm does not have, looks at them from inside, gives them back,
// and compares the node with what it was before: gresnet try. Whoever has the hardware proves by it what the
// tests prove with stubs.
//
// The trial stands in for slurmd. Each of its prologs, epilogs and looks is a process of its own (part.go),
// so that it can be killed. They take and give back by package lease, as those of jobs do.
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

	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/program"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease"
	"gresnet/lib/lease/host"
	"gresnet/lib/people/inspect"
	"gresnet/lib/slurm"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/poll"
)

// Trial is one call of gresnet try.
type Trial struct {
	Host     *host.Host
	Self     []string  // the program that plays the parts, and its arguments before the part's name
	Names    []string  // of HCAs; none: all that jobs can have
	Rounds   int       // how often each HCA goes into a job and comes back; 1 at least
	Kills    int       // how often a prolog or an epilog is killed after that
	Together bool      // all HCAs go into one job
	Mode     rdma.Mode // the RDMA netns mode for the trial; empty: the node's
	Peer     string    // the host to which each sends from the job; empty: none
	Version  string    // gresnet's
	Say      func(format string, a ...any)

	node   *lease.Host
	album  album
	conf   string // a slurm.conf; empty: the node has one of its own
	cgroup string // that stands for the job's; empty: the node has no cgroup v2
	lines  map[string]int
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
	t.node, t.lines = lease.On(t.Host), map[string]int{}
	t.report = &report.Trial{Gresnet: t.Version, Kernel: read("/proc/sys/kernel/osrelease"), Slurm: slurmVersion(ctx)}
	if t.Rounds < 1 || t.Kills < 0 || t.Mode != "" && t.Mode != rdma.Shared && t.Mode != rdma.Exclusive {
		return nil, hint.With(errors.New("--rounds is 1 at least, --kill 0, --mode shared or exclusive"), "GN634 see gresnet try --help")
	}
	if err := hint.Join(t.checkPeer(), isIdle()); err != nil {
		return nil, err
	}
	held, err := t.node.BeginTrial(ctx, t.Mode)
	if err != nil {
		return nil, err
	}
	t.cgroup = held.Cgroup
	err = t.standInForSlurm()
	if err == nil {
		err = t.tryAll(ctx)
	}
	if t.conf != "" {
		err = hint.Join(err, os.Remove(t.conf))
	}
	err = hint.Join(err, held.End(t.node))
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

// standInForSlurm writes a slurm.conf for a node that has none, by which a prolog knows what the node needs:
// the address that its name has, and that of whoever is here by ssh.
func (t *Trial) standInForSlurm() error {
	n := t.Host
	if slurm.Find(n.Files, n.Slurm.Conf) != "" {
		return nil
	}
	text := fmt.Sprintf("NodeName=%s\nSlurmctldHost=%s\n", n.Slurm.Name, n.Slurm.Name)
	if from := strings.Fields(os.Getenv("SSH_CONNECTION")); len(from) > 0 {
		text += fmt.Sprintf("SlurmctldHost=ssh(%s)\n", from[0])
	}
	file, err := os.CreateTemp("", "gresnet-try-*.conf")
	if err != nil {
		return err
	}
	t.conf, n.Slurm.Conf = file.Name(), file.Name()
	_, err = file.WriteString(text)
	return hint.Join(err, file.Close())
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
	if t.Host.State.Lease(lease.TrialJob).Exists() {
		t.Say("gives back what an earlier try left")
		if err := t.giveBack(); err != nil {
			return err
		}
	}
	if err := t.node.Idle(ctx); err != nil {
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
		switch {
		case h.Refused != "":
		case t.Together && len(groups) == 1:
			groups[0] = append(groups[0], h)
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
		ended, err := t.round(ctx, group, 0, 0)
		if err != nil || !ended {
			return err
		}
		for _, h := range group {
			h.Rounds++
		}
	}
	for i := 1; i <= t.Kills && ctx.Err() == nil; i++ {
		what, take, restore := "prolog", 1+rand.N(max(1, t.lines[partTake])), 0
		if rand.N(2) == 0 {
			what, take, restore = "epilog", 0, 1+rand.N(max(1, t.lines[partRestore]))
		}
		t.Say("%s: kill %d of %d: of the %s, at line %d", nameOf(group), i, t.Kills, what, max(take, restore))
		ended, err := t.round(ctx, group, take, restore)
		if err != nil || !ended {
			return err
		}
		for _, h := range group {
			h.Kills++
		}
	}
	return nil
}

// round has a prolog take the HCAs, looks at them from inside, has an epilog give them back, and compares.
// The prolog or the epilog is killed at a line, unless that is 0. ended tells that it came to its end and
// found the prolog in order.
func (t *Trial) round(ctx context.Context, group []*hca, killTake, killRestore int) (ended bool, err error) {
	var names []string
	for _, h := range group {
		names = append(names, h.HCA.ID.String())
	}
	began := time.Now()
	took, err := t.play(ctx, partTake, killTake, names...)
	in := time.Since(began)
	ended = err == nil && (took.Error == "" || took.killed) && ctx.Err() == nil
	switch {
	case err != nil:
	case took.killed:
	case took.Error != "":
		if ctx.Err() == nil {
			t.blame(group, "prolog: "+took.Error)
		}
	case ctx.Err() == nil:
		t.blame(group, took.Warnings...)
		t.lookInside(group)
		t.send(ctx, group)
	}
	if killRestore > 0 && ended {
		if _, err := t.play(context.Background(), partRestore, killRestore); err != nil {
			t.blame(group, err.Error())
		}
	}
	began = time.Now()
	left := t.giveBack(group...)
	out := time.Since(began)
	t.compare(group)
	for _, h := range group {
		if ended && killTake+killRestore == 0 {
			h.In, h.Out = max(h.In, in.Seconds()), max(h.Out, out.Seconds())
		}
	}
	return ended && len(group[0].Faults) == 0, hint.Join(err, left)
}

// giveBack has an epilog give back the HCAs of the trial's job. It fails if the lease remains.
func (t *Trial) giveBack(group ...*hca) error {
	gave, err := t.play(context.Background(), partRestore, 0)
	if err != nil {
		return err
	}
	t.blame(group, gave.Warnings...)
	if gave.Error != "" {
		t.blame(group, "epilog: "+gave.Error)
	}
	if !t.Host.State.Lease(lease.TrialJob).Exists() {
		return nil
	}
	return fmt.Errorf("%w: %s", lease.ErrRemains, strings.TrimPrefix(gave.Error, lease.ErrRemains.Error()+": "))
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
