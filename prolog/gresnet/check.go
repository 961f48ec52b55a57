package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	urfave "github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gresnet/lib/admin/check"
	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/trust"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/network"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state"
)

func checkCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "check",
		Usage: "find what would go wrong before it does",
		Description: `Checks the configuration; the mapping against the node; whether a prolog
would give each HCA of the mapping to a job; ports; the RDMA netns mode, now
and after a reboot; drivers, device nodes, the cgroup controller for limits,
uplinks, overlays, space, the folders of state, metrics and accounting;
NetworkManager and systemd-networkd; what slurm.conf, plugstack.conf,
gres.conf and job_container.conf say, and the scripts that they name; whether
the plugin was built for the installed Slurm; NHC.

It reads files and looks up names of slurm.conf, and makes no RPC. Where jobs
have an uplink, it sends packets from a namespace like a job's, to see
whether a firewall of the node drops them; none leaves the node. It prints a
line for each finding: ok, warning or error, and what to do.

--fix first corrects what is safe: it makes the changes that setup makes,
and closes device nodes. Where setup would have to guess, it makes only the
files in /var/lib/gresnet/gres and enables gresnet.service. It keeps copies,
and setup --undo restores the files.

Exit status: 0 no error; 1 there is an error, after --fix still.

Examples:
  gresnet check
  gresnet check --quiet
  gresnet check --fix --dry-run
  SLURM_CONF=/opt/slurm/etc/slurm.conf gresnet check
  gresnet check --json | jq '.findings[] | select(.level != "ok")'`,
		Flags: []urfave.Flag{
			jsonFlag(),
			&urfave.BoolFlag{Name: "quiet", Usage: "print warnings and errors alone", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "fix", Usage: "correct what is safe, then check", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "dry-run", Usage: "show what --fix would change, and change nothing", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return runCheck(w, c) },
	}
}

func runCheck(w *cli.World, c *urfave.Context) error {
	err := hint.Join(alone(c), oneOf(c, "fix", "json"))
	if err == nil && c.IsSet("dry-run") && !c.IsSet("fix") {
		err = hint.With(errors.New("--dry-run does nothing without --fix"), "GN320 give --fix, too: check alone changes nothing")
	}
	if err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	s, err := look(w, c)
	if err != nil {
		return err
	}
	if c.Bool("fix") {
		if c.Bool("dry-run") {
			return hint.Join(fix(w, c, s, true), showFindings(w, c, s.Run())) // without a lock, for which /run may be read-only
		}
		if err := oneAtATime(c, func() error { return fix(w, c, s, false) }); err != nil {
			return hint.Join(err, showFindings(w, c, s.Run()))
		}
		if s, err = look(w, c); err != nil {
			return err
		}
	}
	return showFindings(w, c, s.Run())
}

// showFindings shows what was found, and fails if there is an error.
func showFindings(w *cli.World, c *urfave.Context, findings []check.Finding) error {
	count := check.Errors(findings)
	if c.Bool("quiet") {
		findings = check.Bad(findings)
	}
	if err := show(w, c, &report.Check{Findings: slices.Concat([]report.Finding{}, findings)}, func(out io.Writer) error { return check.Print(out, findings) }); err != nil {
		return err
	}
	switch count {
	case 0:
		return nil
	case 1:
		return hint.With(fmt.Errorf("the check found an error"), "GN282 the line that begins with error says what to do")
	default:
		return hint.With(fmt.Errorf("the check found %d errors", count), "GN283 each line that begins with error says what to do")
	}
}

// site returns the host with its files; check reads the rest later.
func site(w *cli.World, c *urfave.Context) check.Site {
	return check.Site{
		Root:      os.DirFS("/"),
		SlurmConf: w.Getenv("SLURM_CONF"),
		State:     c.String("state"),
		Node:      w.NodeName(),
	}
}

// look looks at the node as a prolog would meet it.
func look(w *cli.World, c *urfave.Context) (check.Site, error) {
	s := site(w, c)
	s.Records = state.Dir(s.State).ReadRecords()
	s.Config, s.ConfigErr = config.Load(c.String("config"), c.IsSet("config"))
	if s.ConfigErr != nil {
		s.Config = config.Default()
	}
	s.Inventory, s.Drift, s.InventoryErr = inspect.Inventory(w.Host(c, s.Config))
	if s.InventoryErr == nil && s.ConfigErr == nil {
		s.Refusals, s.Unknown, s.RefusalsErr = inspect.Refusals(c.Context, w.Host(c, s.Config))
	}
	if slices.Contains(s.Config.Slurm.Source, config.Scontrol) {
		_, s.ScontrolErr = source.FindScontrol(s.Config.Slurm.Scontrol)
	}
	if slices.Contains(s.Config.Slurm.Source, config.Program) {
		s.ProgramErr = source.CheckProgram(s.Config.Slurm.Program)
	}
	if file := s.Config.Accounting.File; file != "" {
		s.AccountErr = trust.CheckAppend(file)
	}
	s.Uplinks, s.UplinksErr = inspect.Uplinks(w.Host(c, s.Config))
	if s.UplinksErr == nil && s.Uplinks != nil && s.Uplinks.Auto {
		if s.UplinksErr = shares(*s.Uplinks); s.UplinksErr == nil {
			s.Unjudged, s.UplinksErr = unjudged(w.Host(c, s.Config).Guard.Pins, *s.Uplinks)
		}
	}
	s.OverlayErr = inspect.CheckOverlay(w.Host(c, s.Config))
	if s.UplinksErr == nil && s.Uplinks != nil && s.Uplinks.Auto {
		s.Lost, s.LostErr = lost(w, s)
		if s.LostErr == nil {
			s.Bypassed, s.LostErr = nft.OutputDrops()
		}
	}
	s.Bounds, s.BoundErr = inspect.Bound(c.Context, s.Movable())
	s.GuardErr = bpf.Node().Try()
	disk, err := diskAt(s.State)
	if err != nil {
		return s, err
	}
	s.Free, s.StateOn = disk.Bavail*uint64(disk.Bsize), lasting(disk)
	return s, nil
}

// shares looks for what keeps the node from sharing its ports out to jobs.
func shares(p jobnet.Pool) error {
	err := nft.Try() // the overlay's table, and lost's
	if err == nil {
		err = ports.In(bpf.Node().Pins).Try(ports.Settings{Uplinks: p.Ways})
	}
	return err
}

// unjudged returns the names of the interfaces that lead out and lack programs, while there are jobs.
func unjudged(pins string, p jobnet.Pool) (names []string, err error) {
	var ways []int
	for _, w := range p.Ways {
		ways = append(ways, w.Index)
	}
	list, err := ports.In(pins).Unjudged(ways...)
	for _, i := range p.Leads {
		if slices.Contains(list, i.Index) {
			names = append(names, i.Name)
		}
	}
	return names, err
}

// lost has arrive what jobs send to slurmd of their node, and what other nodes send by the overlay, and tells what the
// node drops of it. Both come by the node's own interface. A job's packets to its node have the node's address for their
// source; these have a neighbor's, because the kernel takes its own only while there are jobs.
func lost(w *cli.World, s check.Site) (all []check.Lost, err error) {
	p := s.Uplinks
	said := map[virtual.Packet]check.Lost{}
	conf, _ := jobnet.ReadSlurm(w.Getenv("SLURM_CONF")) // check says itself what does not read
	slurmd := uint16(jobnet.SlurmdPort(conf))
	c := s.Config.Overlay
	for _, i := range p.Leads {
		own, other, err := onNetwork(i.Name)
		if err != nil {
			return nil, err
		}
		if !own.IsValid() || len(i.MAC) != len("00:00:00:00:00:00") {
			continue
		}
		in := virtual.Packet{From: other, To: own, Protocol: virtual.TCP, FromPort: ports.First, Port: slurmd, By: i.Index}
		said[in] = check.Lost{
			What:    "what jobs send to slurmd of their own node",
			Accept:  fmt.Sprintf(`TCP port %d by %s, also from the node's own address`, slurmd, i.Name),
			Without: "srun in a job starts no step there",
		}
		if c.On() && c.Underlay == "" && s.OverlayErr == nil && own == s.Uplinks.Source {
			over := virtual.Packet{From: other, To: own, Protocol: virtual.UDP, FromPort: 600, Port: uint16(c.Port), By: i.Index}
			said[over] = check.Lost{
				What:    "what a job's other nodes send by the overlay",
				Accept:  fmt.Sprintf("UDP port %d from ports 600-1000 of the other nodes", c.Port),
				Without: "processes of a job on several nodes do not reach each other",
			}
		}
	}
	host, err := netns.Current()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	dropped, err := network.Lost(host, p.Gateway, slices.Collect(maps.Keys(said)))
	for _, one := range dropped {
		if l := said[one]; !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b check.Lost) int { return cmp.Compare(a.What, b.What) })
	return all, err
}

// onNetwork returns the node's IPv4 address on an interface, and another one of the same network. Without such
// a network, the other one is nobody's (RFC 7600).
func onNetwork(name string) (own, other netip.Addr, err error) {
	other = netip.MustParseAddr("192.0.0.8")
	i, err := net.InterfaceByName(name)
	if err != nil {
		return own, other, err
	}
	addresses, err := i.Addrs()
	for _, a := range addresses {
		network, err := netip.ParsePrefix(a.String())
		if err != nil || !network.Addr().Is4() {
			continue
		}
		own = network.Addr()
		before, after := own.Prev(), own.Next()
		switch isHost := before != network.Masked().Addr() || network.Bits() == 31; {
		case network.Contains(before) && isHost:
			other = before
		case network.Contains(after):
			other = after
		}
		break
	}
	return own, other, err
}

// diskAt returns the file system that a folder is on, or will be made on.
func diskAt(dir string) (syscall.Statfs_t, error) {
	var stat syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &stat)
		if err == nil {
			return stat, nil
		}
		if parent := filepath.Dir(dir); err == syscall.ENOENT && parent != dir {
			dir = parent
			continue
		}
		return stat, fmt.Errorf("look for space at %s: %w", dir, err)
	}
}

// lasting returns the kind of a file system that outlives a boot, empty for one in memory (statfs(2)).
func lasting(disk syscall.Statfs_t) string {
	kind := uint32(disk.Type)
	if kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC {
		return ""
	}
	return cmp.Or(localTypes[kind], networkTypes[kind], fmt.Sprintf("a file system of type %#x", kind))
}
