package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/bpf"
	"gresnet/lib/check"
	"gresnet/lib/cli"
	"gresnet/lib/config"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/inspect"
	"gresnet/lib/link"
	"gresnet/lib/nft"
	"gresnet/lib/source"
	"gresnet/lib/uplink"
)

func checkCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:  "check",
		Usage: "find what would go wrong before it does",
		Description: `Checks the configuration; the mapping against the node; whether a prolog
would give each HCA of the mapping to a job; the RDMA netns mode, now and
after a reboot; drivers, device nodes, the cgroup controller for limits,
uplinks, overlays and space; NetworkManager and systemd-networkd; what
slurm.conf, plugstack.conf and gres.conf say; whether the plugin was built
for the installed Slurm; and NHC.

It reads files and looks up names of slurm.conf, and makes no RPC. It prints
a line for each finding: ok, warning or error, and what to do.

Exit status: 0 no error; 1 there is an error.

Examples:
  gresnet-prolog check
  SLURM_CONF=/opt/slurm/etc/slurm.conf gresnet-prolog check
  gresnet-prolog check --json | jq '.[] | select(.level != "ok")'`,
		Flags:  []urfave.Flag{jsonFlag()},
		Action: func(c *urfave.Context) error { return runCheck(w, c) },
	}
}

func runCheck(w *cli.World, c *urfave.Context) error {
	if err := cli.Alone(c); err != nil {
		return err
	}
	if err := cli.Root(); err != nil {
		return err
	}
	s := check.Site{
		Root:      os.DirFS("/"),
		SlurmConf: w.Getenv("SLURM_CONF"),
		State:     c.String("state"),
		Node:      w.NodeName(),
	}
	s.Config, s.ConfigErr = config.Load(c.String("config"), c.IsSet("config"))
	if s.ConfigErr != nil {
		s.Config = config.Default()
	}
	s.Inventory, s.Drift, s.InventoryErr = inspect.Inventory(w.Host(c, s.Config))
	if s.InventoryErr == nil && s.ConfigErr == nil {
		s.Refusals, s.Unknown, s.RefusalsErr = refusals(c, w.Host(c, s.Config))
	}
	if slices.Contains(s.Config.Slurm.Source, config.Scontrol) {
		_, s.ScontrolErr = source.FindScontrol(s.Config.Slurm.Scontrol)
	}
	s.Uplinks, s.UplinksErr = inspect.Uplinks(w.Host(c, s.Config))
	if s.UplinksErr == nil && s.Uplinks != nil {
		s.Drops, s.UplinksErr = forwards(*s.Uplinks)
	}
	s.OverlayErr = inspect.CheckOverlay(w.Host(c, s.Config))
	s.GuardErr = bpf.Node().Try()
	free, err := freeAt(s.State)
	if err != nil {
		return err
	}
	s.Free = free
	findings := s.Run()
	if err := show(w, c, findings, func(out io.Writer) error { return check.Print(out, findings) }); err != nil {
		return err
	}
	switch n := check.Errors(findings); n {
	case 0:
		return nil
	case 1:
		return hint.With(fmt.Errorf("the check found an error"), "the line that begins with error says what to do")
	default:
		return hint.With(fmt.Errorf("the check found %d errors", n), "each line that begins with error says what to do")
	}
}

// refusals are those that a prolog would make.
func refusals(c *urfave.Context, n *host.Host) (list []check.Refusal, unknown []error, err error) {
	all, unknown, err := inspect.Refusals(c.Context, n)
	for _, r := range all {
		list = append(list, check.Refusal{Name: r.Entry.HCA.Name, Gres: r.Entry.String(), Err: r.Err})
	}
	return list, unknown, err
}

// forwards looks for what keeps the node from forwarding for jobs, if it is to: chains that drop what
// they send, and what else.
func forwards(p uplink.Pool) (drops []string, err error) {
	if !p.Beyond {
		return nil, nil
	}
	if p.NAT {
		err = nft.Try()
	}
	for _, i := range p.Leads {
		if err == nil {
			err = link.MayForward(i.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	return nft.Dropping()
}

// freeAt is how many bytes are free where a folder is, or will be made.
func freeAt(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &stat)
		if err == nil {
			return stat.Bavail * uint64(stat.Bsize), nil
		}
		if parent := filepath.Dir(dir); err == syscall.ENOENT && parent != dir {
			dir = parent
			continue
		}
		return 0, fmt.Errorf("look for space at %s: %w", dir, err)
	}
}
