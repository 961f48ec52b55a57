package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/admin/setup"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
)

func setupCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "setup",
		Usage: "change Slurm's files so that jobs get HCAs",
		Description: `Shows what it changes, and changes it: gres.conf and the files that it names,
slurm.conf (Gres=nic:N of the node, GresTypes, Prolog, Epilog, PrologFlags,
PropagateResourceLimitsExcept=MEMLOCK), plugstack.conf and cgroup.conf, with
the files that they include, LimitMEMLOCK of slurmd's unit, and
gresnet.service, which it enables. Without source scontrol Slurm counts no
NICs, and gets none. If an HCA is reserved for the host, it
lists the others in gresnet.toml. A second run changes nothing.

It prints the lines that the controller's slurm.conf needs, too, and lines
for files that other hosts have, by NFS or links, which it does not change.
Lines and scripts for all hosts do nothing on a host without gresnet.

It keeps a copy of each file in /var/lib/gresnet/setup. --undo restores the
files byte for byte, except those that somebody has changed since, and opens
the device nodes that gresnet has restricted. The scripts for Prolog and
Epilog stay until slurmd is restarted: without them it drains the node. While
a job holds HCAs it changes nothing.

It does not guess. Where a line is about several nodes, or Prolog is the
site's own and Slurm takes one (before 24.05), it changes nothing, and says
what to do. Of a site's script it believes what the last run has shown.

Exit status: 0 done; 1 something is for a person to do.

Examples:
  gresnet setup --dry-run
  gresnet setup --restart
  gresnet setup --mode exclusive     # then reboot
  gresnet setup --undo`,
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "dry-run", Usage: "show the changes, and make none", DisableDefaultText: true},
			&urfave.StringFlag{Name: "mode", Usage: "be in RDMA netns `MODE` shared or exclusive after a reboot"},
			&urfave.BoolFlag{Name: "restart", Usage: "restart slurmctld and slurmd where they run", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "undo", Usage: "revert all changes", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return runSetup(w, c) },
	}
}

func runSetup(w *cli.World, c *urfave.Context) error {
	err := hint.Join(alone(c), oneOf(c, "dry-run", "undo"), oneOf(c, "dry-run", "restart"), oneOf(c, "mode", "undo"))
	if mode := c.String("mode"); err == nil && c.IsSet("mode") && mode != string(rdma.Shared) && mode != string(rdma.Exclusive) {
		err = hint.With(fmt.Errorf("unknown mode %q", mode), "GN290 take shared or exclusive")
	}
	if err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return doSetup(w, c) // without a lock, for which /run may be read-only
	}
	return oneAtATime(c, func() error {
		var err error
		if c.Bool("undo") {
			cfg := w.Lenient(c)
			err = undoSetup(w, setupNode(w, c, cfg), c.String("config"), c.Bool("restart"))
			fmt.Fprint(w.Stdout, modeLeft(cfg.RDMA.Mode, w.Lenient(c).RDMA.Mode))
		} else {
			err = doSetup(w, c)
		}
		before := slurm.Daemons(os.DirFS("/"))
		if err == nil && c.Bool("restart") {
			err = restartSlurm(c.Context, w.Stdout)
		}
		after := slurm.Daemons(os.DirFS("/"))
		calls := func(daemon string) bool { return slices.Contains(after, daemon) }
		if err == nil && c.Bool("undo") && !slices.ContainsFunc(before, calls) {
			err = undoScripts(w, setupNode(w, c, w.Lenient(c)))
		}
		return err
	})
}

// oneAtATime has one setup at a time change the node.
func oneAtATime(c *urfave.Context, f func() error) error {
	held, err := state.LockFile(c.Context, "/run/gresnet-setup.lock")
	if err != nil {
		return fmt.Errorf("lock setup: %w", err)
	}
	return hint.Join(f(), held.Remove())
}

func setupNode(w *cli.World, c *urfave.Context, cfg config.Config) setup.Node {
	return setup.Node{Root: "/", Network: networkOf, Devices: devices{c.Context, lease.On(w.Host(c, cfg))}, Records: &setup.Records{State: state.Dir(c.String("state")), Gres: source.Asked(cfg)}}
}

// devices are the node's own device nodes of HCAs.
type devices struct {
	ctx  context.Context
	host *lease.Host
}

func (d devices) Idle() error                       { return d.host.Idle(d.ctx) }
func (d devices) Picture() (devnode.Picture, error) { return d.host.Picture() }
func (d devices) Redo() error                       { return d.host.Redo() }
func (d devices) Reopen(had devnode.Picture) error {
	return d.host.Reopen(d.ctx, had, func(nodes []string) (bool, error) { return applyRules(d.ctx, nodes) })
}

// applyRules has udev apply the site's rules to device nodes, as when they come. It returns false
// where no udev runs.
func applyRules(ctx context.Context, nodes []string) (bool, error) {
	if _, err := os.Stat("/run/udev/control"); err != nil {
		return false, nil
	}
	const most = time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, args := range [][]string{append([]string{"trigger", "--action=add"}, nodes...), {"settle"}} {
		if said, err := exec.CommandContext(ctx, "udevadm", args...).CombinedOutput(); err != nil {
			return true, hint.With(fmt.Errorf("udevadm %s: %w: %s", args[0], err, bytes.TrimSpace(said)), "GN436 see why udev does not answer, then run it again")
		}
	}
	return true, nil
}

// doSetup plans, shows the plan, and carries it out.
func doSetup(w *cli.World, c *urfave.Context) error {
	cfg, err := config.Load(c.String("config"), c.IsSet("config"))
	if err != nil {
		return err
	}
	node := setupNode(w, c, cfg)
	site, err := siteOf(w, c, cfg)
	if err != nil {
		return err
	}
	site.Network = node.Shared
	plan := setup.Make(site)
	refusals := slices.Concat(plan.Refusals, node.Check(plan), portless(w, c, cfg))
	for _, r := range refusals {
		id, do := hint.Cut(r.Do)
		fmt.Fprintf(w.Stdout, "not done: %s; %s%s\n", r.Text, do, hint.Tag(id))
	}
	if len(refusals) > 0 {
		return hint.With(fmt.Errorf("setup changed nothing, and leaves to a person what it would have to guess: %d", len(refusals)), "GN291 each line that begins with \"not done\" says what to do; then run it again")
	}
	if !slices.Contains(cfg.Slurm.Source, config.Scontrol) {
		plan.Notes = append(plan.Notes, fmt.Sprintf("slurm.source in %s lacks \"scontrol\": Slurm's files get no NICs, and jobs cannot ask for them", site.Toml))
	}
	plan.Print(w.Stdout)
	if c.Bool("dry-run") {
		if plan.Changes() {
			fmt.Fprintln(w.Stdout, "\nnothing was changed: this is a dry run")
		} else {
			fmt.Fprintln(w.Stdout, "nothing to change")
		}
		tell(w.Stdout, plan, c)
		return nil
	}
	if !plan.Changes() {
		fmt.Fprintln(w.Stdout, "nothing to change")
		plan.PrintController(w.Stdout)
		return hint.Join(node.Expect(), node.Redo())
	}
	if err := node.Do(plan); err != nil {
		return hint.With(fmt.Errorf("set up: %w", err), cmp.Or(hint.Whole(err), "GN292 fix the cause, then run setup again, or setup --undo"))
	}
	fmt.Fprintf(w.Stdout, "\nthis is done; setup --undo takes it back\n")
	tell(w.Stdout, plan, c)
	return nil
}

// portless refuses a node that leaves no ports for jobs: each prolog with an HCA would fail there, and drain it.
func portless(w *cli.World, c *urfave.Context, cfg config.Config) []setup.Refusal {
	if cfg.MovesNothing() {
		return nil // jobs stay in the node's network
	}
	_, err := inspect.Uplinks(w.Host(c, cfg))
	if !errors.Is(err, jobnet.ErrNoPorts) {
		return nil
	}
	return []setup.Refusal{{Text: err.Error(), Do: hint.Whole(err)}}
}

// tell says what setup cannot do itself.
func tell(out io.Writer, plan setup.Plan, c *urfave.Context) {
	for _, note := range plan.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	plan.PrintController(out)
	others := func(e setup.Edit) bool { return e.Path != c.String("config") }
	if plan.Changes() && c.IsSet("mode") && !slices.ContainsFunc(plan.Edits, others) {
		fmt.Fprint(out, `
next: drain the node, reboot it, and see what gresnet check says
`)
		return
	}
	if !plan.Changes() || c.Bool("restart") {
		return
	}
	fmt.Fprint(out, `
next:
  systemctl restart slurmctld     # on the controller
  systemctl daemon-reload; systemctl restart slurmd    # here
  gresnet check            # says what is still wrong
  srun --gres=nic:1 ip link       # a job with an HCA
`)
}

// siteOf looks at the node: what it has, and what gresnet.toml says of it.
func siteOf(w *cli.World, c *urfave.Context, cfg config.Config) (setup.Site, error) {
	s := setup.Site{Root: os.DirFS("/"), Node: w.NodeName(), SlurmConf: w.Getenv("SLURM_CONF"), Toml: c.String("config"), State: c.String("state"), Records: state.Dir(c.String("state")).ReadRecords()}
	inv, drift, err := inspect.Proposal(c.Context, w.Host(c, cfg))
	if err := hint.Join(err, drift); err != nil {
		return s, err
	}
	if inv.Counts(cfg.Slurm.Gres) == "" {
		return s, hint.With(errors.New("the node has no HCA for jobs"), "GN293 gresnet scan shows what there is, and scan --toml why jobs cannot have it")
	}
	if err := s.Count(inv, cfg.Slurm); err != nil {
		return s, err
	}
	refused := func(h report.HCA) bool { return h.Refused != "" }
	if len(cfg.HCAs) == 0 && slices.ContainsFunc(inv.HCAs, refused) {
		var tables bytes.Buffer
		if err := inv.TOML(&tables, cfg.Slurm.Gres); err != nil {
			return s, err
		}
		s.HCATables = tables.String()
	}
	if mode := c.String("mode"); mode != cfg.RDMA.Mode {
		s.Mode = mode
	}
	if s.Mode == string(rdma.Exclusive) {
		if key, value := cfg.ForShared(); key != "" {
			s.ForShared = fmt.Sprintf("%s = %q", key, value)
		}
	}
	_, err = os.Stat("/run/systemd/system")
	s.Systemd = err == nil
	return s, nil
}

// modeLeft says that the kernel has the RDMA netns mode still that gresnet.toml asked for: in
// exclusive mode programs in containers have no RDMA.
func modeLeft(before, after string) string {
	if before != string(rdma.Exclusive) || after == before {
		return ""
	}
	return "note: the RDMA netns mode is exclusive until a reboot\n"
}

// undoSetup restores the files, and prints what a person must do to those that it leaves.
func undoSetup(w *cli.World, node setup.Node, toml string, restart bool) error {
	undone, left, err := node.Undo(len(slurm.Daemons(os.DirFS("/"))) > 0)
	for _, file := range undone {
		fmt.Fprintf(w.Stdout, "as it was: %s\n", file)
	}
	if err != nil {
		return hint.With(fmt.Errorf("undo setup: %w", err), cmp.Or(hint.Whole(err), "GN294 fix the cause, then run it again; copies of the files are in "+setup.Store))
	}
	// No program reads it any more: gresnet.service is disabled, and Slurm calls no prolog.
	if i := slices.Index(left, toml); i >= 0 {
		fmt.Fprintf(w.Stdout, "left as somebody has changed it: %s\n", toml)
		undone, left = append(undone, toml), slices.Delete(left, i, i+1)
	}
	for _, file := range left {
		lines, err := node.ByHand(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.Stdout, "to do by hand: %s\n", file)
		for _, line := range lines {
			fmt.Fprintf(w.Stdout, "  %s\n", line)
		}
	}
	if len(left) > 0 {
		return hint.With(fmt.Errorf("somebody else has changed since, and setup leaves as it is: %s", strings.Join(left, ", ")),
			"GN295 take gresnet's lines out by hand; how each file was is in "+setup.Store)
	}
	called, err := node.Called()
	if len(called) > 0 && !restart {
		fmt.Fprintf(w.Stdout, "left until slurmd, which calls them, is restarted: %s; gresnet setup --undo --restart does both\n", strings.Join(called, ", "))
	} else if len(undone) == 0 && len(called) == 0 {
		fmt.Fprintln(w.Stdout, "nothing to undo")
	}
	return err
}

// undoScripts takes back the scripts that a slurmd called that has been restarted since.
func undoScripts(w *cli.World, node setup.Node) error {
	undone, _, err := node.Undo(false)
	for _, file := range undone {
		fmt.Fprintf(w.Stdout, "as it was: %s\n", file)
	}
	return err
}

// restartSlurm restarts Slurm's daemons of this host.
func restartSlurm(ctx context.Context, out io.Writer) error {
	const most = 5 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if said, err := exec.CommandContext(ctx, "systemctl", "daemon-reload").CombinedOutput(); err != nil {
		return hint.With(fmt.Errorf("have systemd read its units: %w: %s", err, bytes.TrimSpace(said)), "GN547 run it by hand: systemctl daemon-reload; then restart slurmctld and slurmd")
	}
	for _, unit := range []string{"slurmctld", "slurmd"} {
		if exec.CommandContext(ctx, "systemctl", "is-active", "-q", unit).Run() != nil {
			continue
		}
		if said, err := exec.CommandContext(ctx, "systemctl", "restart", unit).CombinedOutput(); err != nil {
			return hint.With(fmt.Errorf("restart %s: %w: %s", unit, err, bytes.TrimSpace(said)), "GN296 journalctl -u "+unit+" says why; gresnet setup --undo restores the files")
		}
		fmt.Fprintf(out, "restarted: %s\n", unit)
	}
	return nil
}

// networkOf returns the kind of a file system that other hosts have, too.
func networkOf(file string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(file, &stat); err != nil {
		return ""
	}
	return networkTypes[uint32(stat.Type)]
}

// The kinds of these file systems, and of the node's own (statfs(2)).
var (
	networkTypes = map[uint32]string{
		0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
		0x00c36400: "CephFS", 0x19830326: "BeeGFS", 0x01021997: "9p", 0x65735546: "FUSE",
	}
	localTypes = map[uint32]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x794c7630: "overlayfs"}
)
