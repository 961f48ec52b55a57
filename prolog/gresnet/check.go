package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	urfave "github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/people/check"
	"gresnet/lib/people/cli"
	"gresnet/lib/people/inspect"
	"gresnet/lib/state"
	"gresnet/lib/state/sign"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
	"gresnet/lib/words/trust"
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
the plugin was built for the installed Slurm; NHC, and other programs that
watch HCAs.

It reads files and looks up names of slurm.conf, and makes no RPC. It prints
a line for each finding: ok, warning or error, and what to do. With --machine
it says whether jobs would get what the layout's lines of jobs say.

--fix first mends what is safe: it makes the changes that setup would make,
and closes device nodes. Where setup would have to guess, it makes only the
files in /var/lib/gresnet/gres and enables gresnet.service. It keeps copies,
and setup --undo gives the files back.

Exit status: 0 no error; 1 there is an error, after --fix still.

Examples:
  gresnet check
  gresnet check --quiet
  gresnet check --fix --dry-run
  gresnet check --role login     # where users call srun and sbatch
  SLURM_CONF=/opt/slurm/etc/slurm.conf gresnet check
  clush -a -b gresnet check --fingerprint
  gresnet check --machine node.txt
  gresnet check --json | jq '.findings[] | select(.level != "ok")'`,
		Flags: []urfave.Flag{
			jsonFlag(),
			&urfave.BoolFlag{Name: "quiet", Usage: "print warnings and errors alone", DisableDefaultText: true},
			&urfave.StringFlag{Name: "role", Usage: "check as `ROLE` node or login (no HCAs)", Value: "node"},
			&urfave.BoolFlag{Name: "fix", Usage: "mend what is safe, then check", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "dry-run", Usage: "show what --fix would mend, and change nothing", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "fingerprint", Usage: "print a line that is equal on nodes configured alike", DisableDefaultText: true},
			machineFlag(),
		},
		Action: func(c *urfave.Context) error { return runCheck(w, c) },
	}
}

func runCheck(w *cli.World, c *urfave.Context) error {
	err := hint.Join(alone(c), oneOf(c, "json", "fingerprint"), oneOf(c, "quiet", "fingerprint"), oneOf(c, "role", "fingerprint"),
		oneOf(c, "fix", "json"), oneOf(c, "fix", "fingerprint"), oneOf(c, "fix", "role"))
	if err == nil && c.IsSet("dry-run") && !c.IsSet("fix") {
		err = hint.With(errors.New("--dry-run does nothing without --fix"), "GN320 give --fix, too: check alone changes nothing")
	}
	if err != nil {
		return err
	}
	if c.IsSet("machine") {
		return checkMachine(w, c)
	}
	switch c.String("role") {
	case "login":
		return showFindings(w, c, site(w, c).RunLogin())
	case "node":
	default:
		return hint.With(fmt.Errorf("unknown role %q", c.String("role")), "GN281 take node or login")
	}
	if err := cli.Root(); err != nil {
		return err
	}
	s, err := look(w, c)
	if err != nil {
		return err
	}
	if c.Bool("fingerprint") {
		_, err := fmt.Fprintln(w.Stdout, s.Fingerprint(cli.Version()))
		return err
	}
	if c.Bool("fix") {
		dry := c.Bool("dry-run")
		if err := oneAtATime(c, func() error { return fix(w, c, s, dry) }); err != nil || dry {
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
	s.Signs = sign.Look(state.Dir(s.State))
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
	if s.UplinksErr == nil && s.Uplinks != nil {
		s.Drops, s.UplinksErr = forwards(*s.Uplinks)
	}
	s.OverlayErr = inspect.CheckOverlay(w.Host(c, s.Config))
	s.Inputs, s.InputsErr = inputs(w, s)
	s.Bounds, s.BoundErr = inspect.Bound(c.Context, s.Movable())
	s.GuardErr = bpf.Node().Try()
	disk, err := diskAt(s.State)
	if err != nil {
		return s, err
	}
	s.Free, s.StateOn = disk.Bavail*uint64(disk.Bsize), lasting(disk)
	return s, nil
}

// forwards looks for what keeps the node from forwarding for jobs, if it is to: chains that drop what
// they send, and what else.
func forwards(p jobnet.Pool) (drops []string, err error) {
	if !p.Auto {
		return nil, nil
	}
	err = nft.Try()
	for _, i := range p.Leads {
		var more []nft.Chain
		if err == nil {
			err = link.MayForward(i.Name)
		}
		if err == nil {
			packet := fromJob(p)
			packet.Out = i.Name
			more, err = nft.DroppingAll(packet)
		}
		for _, c := range more {
			drops = append(drops, c.String())
		}
	}
	slices.Sort(drops)
	return slices.Compact(drops), err
}

// fromJob returns what a job sends by its uplink to some port.
func fromJob(p jobnet.Pool) nft.Packet {
	return nft.Packet{From: p.Addresses.First, Protocol: unix.IPPROTO_TCP, In: "job1"}
}

// inputs looks for chains that drop what jobs send to slurmd of their node, what Slurm sends to srun in
// jobs, and what other nodes send by the overlay.
func inputs(w *cli.World, s check.Site) (all []check.Input, err error) {
	ask := func(what, rule, old, without string, p nft.Packet) {
		var chains []nft.Chain
		if err == nil {
			chains, err = nft.DroppingAll(p)
		}
		for _, c := range chains {
			i := check.Input{Chain: c.String(), What: what, Accept: c.Accept(rule, old), Without: without}
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
	}
	from, in := wayOut()
	if p := s.Uplinks; p != nil && p.Auto {
		conf, _ := jobnet.ReadSlurm(job.Job{Conf: w.Getenv("SLURM_CONF")}) // check says itself what does not read
		port := jobnet.SlurmdPort(conf)
		packet := fromJob(*p)
		packet.Port = uint16(port)
		ask("what jobs send to slurmd of their own node", fmt.Sprintf(`iifname "job*" tcp dport %d`, port), fmt.Sprintf("-i job+ -p tcp --dport %d", port), "srun in a job starts no step there", packet)
		calls, _ := p.Ports(p.Addresses.First.Next())
		packet = nft.Packet{From: from, To: p.Addresses.First.Next(), Protocol: unix.IPPROTO_TCP, Port: uint16(calls.First), In: in, Out: "job1", DNAT: true}
		if in != "" {
			ask("what Slurm sends to srun in jobs", `oifname "job*" ct status dnat`, "-o job+ -m conntrack --ctstate DNAT", "srun in a job starts no step on other nodes, and no job", packet)
		}
	}
	c := s.Config.Overlay
	if c.On() && c.Underlay == "" && s.OverlayErr == nil && in != "" {
		for _, port := range []uint16{600, 1000} { // the first and the last that nodes send from
			packet := nft.Packet{From: from, To: from, Protocol: unix.IPPROTO_UDP, FromPort: port, Port: uint16(c.Port), In: in}
			ask("what a job's other nodes send by the overlay", fmt.Sprintf("udp sport 600-1000 udp dport %d", c.Port), fmt.Sprintf("-p udp --sport 600:1000 --dport %d", c.Port), "processes of a job on several nodes do not reach each other", packet)
		}
	}
	return all, err
}

// wayOut returns the node's address on its management network, which other nodes' are like, and the
// interface that has it. The name is empty if the node has no default route.
func wayOut() (netip.Addr, string) {
	from, index, err := virtual.Way(netip.MustParseAddr("192.0.0.8")) // nobody's (RFC 7600)
	if err != nil {
		return from, ""
	}
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return from, ""
	}
	return from, i.Name
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
