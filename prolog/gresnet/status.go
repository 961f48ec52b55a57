package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/admin/inspect"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
)

func statusCommand(w *cli.World) *urfave.Command {
	return &urfave.Command{
		Name:      "status",
		Usage:     "show who holds the node's HCAs, and what is wrong",
		ArgsUsage: "[JOBID]",
		Description: `Shows each HCA with the job that has it, and each lease. With a job id it
shows what that job's epilog will undo.

HCA states:
  free         jobs can have it
  leased       a job has it
  quarantined  no job gets it until gresnet release or a reboot; or,
               if a user's process uses it, until that process ends
  unmapped     the configuration gives it to no job
  gone         the node does not have it any more
  missing      the configuration lists it, and the node has not had it since
               it was booted

Lease states:
  complete     the job has its HCAs
  refused      the job asked for what it cannot have
  partial      a prolog or an epilog is at work, or was interrupted
  damaged      the journal cannot be read

Examples:
  gresnet status
  gresnet status 4711
  gresnet status --json | jq '.hcas[] | select(.claim.quarantined)'`,
		Flags: []urfave.Flag{jsonFlag()},
		Action: func(c *urfave.Context) error {
			id, err := oneJob(c)
			if err != nil {
				return err
			}
			cfg, err := cli.Site(c)
			if err != nil {
				return err
			}
			s, err := inspect.ReadStatus(w.Host(c, cfg))
			if errors.Is(err, rdma.ErrNoRDMA) && id == 0 {
				return showNone(w, c, &report.Status{HCAs: []report.HCA{}, Leases: []report.Lease{}})
			}
			if err != nil {
				return err
			}
			if id != 0 {
				if s, err = ofJob(s, id); err != nil {
					return err
				}
			}
			err = show(w, c, s, func(out io.Writer) error {
				if id != 0 {
					return s.JobTable(out, id)
				}
				return s.Table(out)
			})
			// Who has what is to be seen on a node whose mapping does not hold, too.
			return hint.Join(err, s.Drift)
		},
	}
}

// oneJob returns the job that the arguments name, 0 if they name none.
func oneJob(c *urfave.Context) (uint32, error) {
	if c.NArg() == 0 {
		return 0, nil
	}
	id, err := strconv.ParseUint(c.Args().First(), 10, 32)
	if err != nil || id == 0 || c.NArg() > 1 {
		return 0, hint.With(fmt.Errorf("%q is not a job id", strings.Join(c.Args().Slice(), " ")), "GN297 see "+c.App.Name+" status --help")
	}
	return uint32(id), nil
}

// ofJob returns what a status has of a job.
func ofJob(s *report.Status, id uint32) (*report.Status, error) {
	s.HCAs = slices.DeleteFunc(s.HCAs, func(h report.HCA) bool { return h.Claim == nil || h.Claim.Job != id })
	s.Leases = slices.DeleteFunc(s.Leases, func(l report.Lease) bool { return l.Job != id })
	if len(s.Leases) == 0 {
		return s, hint.With(fmt.Errorf("job %d has no lease here", id), "GN298 gresnet status lists the leases")
	}
	return s, nil
}
