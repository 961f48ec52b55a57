package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"gresnet/lib/bpf"
	"gresnet/lib/check"
	"gresnet/lib/config"
	"gresnet/lib/door"
	"gresnet/lib/hint"
)

func checkCommand(w *door.World) *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "find what would go wrong before it does",
		Description: `Checks the configuration, the mapping against the node, the RDMA netns mode
now and after a reboot, drivers, device nodes, the cgroup controller for
limits, uplinks, space, NetworkManager and systemd-networkd; what slurm.conf,
plugstack.conf and gres.conf say; whether the plugin is one for the Slurm
that is installed; and NHC. It reads files and asks nobody: no RPC. One line
each: ok, warning or error, and what to do. Exit status 1 if there is an
error.

Examples:
  gresnet-prolog check
  SLURM_CONF=/opt/slurm/etc/slurm.conf gresnet-prolog check
  gresnet-prolog check --json | jq '.[] | select(.level != "ok")'`,
		Flags:  []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error { return runCheck(w, c) },
	}
}

func runCheck(w *door.World, c *cli.Context) error {
	if err := door.Alone(c); err != nil {
		return err
	}
	if err := door.Root(); err != nil {
		return err
	}
	s := check.Site{
		Root:      os.DirFS("/"),
		SlurmConf: w.Getenv("SLURM_CONF"),
		State:     c.String("state"),
		Node:      w.Getenv("SLURMD_NODENAME"),
	}
	if s.Node == "" {
		s.Node = standIn("SLURMD_NODENAME")
	}
	s.Config, s.ConfigErr = config.Load(c.String("config"), c.IsSet("config"))
	if s.ConfigErr != nil {
		s.Config = config.Default()
	}
	s.Stock, s.Drift, s.StockErr = w.Node(c, s.Config).Stock()
	s.Uplinks, s.UplinksErr = w.Node(c, s.Config).Uplinks()
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
