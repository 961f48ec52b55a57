package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
)

// mostOccupants is how many processes are looked at: users begin them.
const mostOccupants = 4096

// checkIdle returns an error for an HCA that is in use: by a part of the kernel, or by a service of the node's
// that runs as root, as a parallel file system's does. moves says that the job has more of it than its device
// nodes, and take that the site gives it to jobs even if the node itself needs it.
func checkIdle(v *scan.View, d scan.Device, moves bool, mode rdma.Mode, take bool) error {
	if mode == rdma.Exclusive {
		if err := whole(v, d); err != nil {
			return err
		}
	}
	foreign, processes, err := v.Occupants(d)
	if err == nil && len(processes) > mostOccupants {
		err = rdma.ErrTooMany
	}
	if errors.Is(err, rdma.ErrTooMany) {
		return &gres.Refusal{
			Reason: gres.UsedByUsers, Ask: d.Name, Why: err.Error() + ", which users make it",
			Do: "GN380 rdma resource show cm_id says whose connections and servers these are: end these processes",
		}
	}
	switch {
	case err != nil || !moves:
		return err
	case len(foreign) > 0:
		return byKernel(d.Name, foreign)
	case take:
		return nil
	}
	return byServices(d.Name, processes, poll.Service)
}

// whole refuses an HCA with a part that the kernel would wait for.
func whole(v *scan.View, d scan.Device) error {
	parts, err := v.Parts(d)
	if err != nil || len(parts) == 0 {
		return err
	}
	return hint.With(fmt.Errorf("%s has a sub-device, %s, which keeps the kernel from moving it", d.Name, strings.Join(parts, ", ")),
		"GN548 if no subnet manager runs here, remove it: rdma dev delete "+parts[0]+"; or have the node in shared mode")
}

// byKernel says what the kernel uses an HCA for. If that is no more than what sockets of users make it
// do, it is no fault of the node's, or any user could drain it.
func byKernel(hca string, modules []string) error {
	err := fmt.Errorf("the kernel uses %s for %s", hca, strings.Join(modules, ", "))
	if slices.ContainsFunc(modules, func(m string) bool { return !slices.Contains(socketModules, m) }) {
		return hint.With(err, "GN198 a job cannot have an HCA that the node itself needs: leave it out of the mapping")
	}
	return &gres.Refusal{
		Reason: gres.UsedByUsers, Ask: hca, Why: err.Error() + ", as a user's socket made it do",
		Do: "GN375 keep users from that: install smc /bin/false and install rds /bin/false in /etc/modprobe.d; then rmmod the module",
	}
}

// socketModules use HCAs for the sockets of any user: of AF_SMC (net/smc/smc_ib.c:smc_ib_create_protection_domain)
// and of AF_RDS (net/rds/ib.c:rds_ib_add_one).
var socketModules = []string{"smc", "rds_rdma"}

// byServices refuses a job an HCA that a service of root's has open, which has run for some time at least. The
// real user counts: of what a user runs by a set-uid program it is the user. But a program may become root
// with what a user has opened, so it is no fault of the node's.
func byServices(hca string, pids []int, least time.Duration) error {
	var names []string
	for _, pid := range pids {
		p, uid, err := proc.UserOf(pid)
		if err != nil || uid != 0 {
			continue // it has ended; or it is a user's, see package users
		}
		if since, err := proc.Running(pid); err == nil && since >= least && !slices.Contains(names, p.String()) {
			names = append(names, p.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &gres.Refusal{
		Ask: hca, Why: "root's " + strings.Join(names, ", ") + " uses it",
		Do: `GN549 leave the HCA out of the mapping; if the process does without it, end it, or set node = "take" in its [[hca]]`,
	}
}
