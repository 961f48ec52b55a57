package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/link"
)

// findUsable finds the RDMA device of an entry. It returns an error if no job can have the device: programs cannot use it,
// or the kernel or a service of root's uses it.
func (l *Look) findUsable(v *scan.View, mode rdma.Mode, e gres.Entry) (scan.Device, error) {
	d, err := v.Find(e.HCA.ID)
	if lag := joined(v, e.HCA.ID); errors.Is(err, scan.ErrNotFound) && lag != nil {
		return scan.Device{}, lag
	}
	if err != nil {
		return scan.Device{}, hint.With(err, "GN196 compare `rdma dev` with the configuration; is its driver loaded, or is it in another namespace?")
	}
	if err := v.MAD(&d); err != nil {
		return scan.Device{}, err
	}
	if len(d.Chars) == 0 {
		err := fmt.Errorf("%s has no uverbs device, without which no program can use it", d.Name)
		return scan.Device{}, hint.With(err, "GN197 load ib_uverbs")
	}
	if d.Driver == "hfi1" && !slices.ContainsFunc(d.Chars, func(c scan.Char) bool { return c.Kind == "hfi1" }) {
		err := fmt.Errorf("%s has another name than its device node /dev/hfi1_N", d.Name)
		return scan.Device{}, hint.With(err, "GN712 leave it its name: NAME_KERNEL in udev's 60-rdma-persistent-naming.rules")
	}
	twins, err := v.Twins(d)
	if err != nil {
		return scan.Device{}, err
	}
	if len(twins) > 0 {
		err := fmt.Errorf("%s and %s have one GUID, %s, by which nobody can tell them apart", d.Name, strings.Join(twins, ", "), d.ID)
		return scan.Device{}, hint.With(err, "GN452 remove all but one, `rdma link delete`")
	}
	return d, checkIdle(v, d, mode == rdma.Exclusive || !e.Keep, mode, e.Take)
}

// joined returns an error for an HCA that is not there because its interface is in a bond: mlx5 makes one RDMA device of
// both functions of a card, a RoCE LAG, and the other function has it (mlx5/core/lag/lag.c:mlx5_do_bond). It returns nil
// for any other HCA.
func joined(v *scan.View, id node.ID) error {
	own, err := v.Link.OfFunction(id.PCI)
	if err != nil || own.Master == 0 {
		return nil
	}
	list, err := v.Link.List()
	if err != nil {
		return nil
	}
	for _, other := range list {
		if other.Master != own.Master || other.Index == own.Index {
			continue
		}
		if hca, err := v.HCAOf(other.ID); err == nil && hca != (node.ID{}) {
			err := fmt.Errorf("%s has no RDMA device of its own: its interface %s is in a bond with %s, which has the RDMA device of both (RoCE LAG)", id, own.Name, other.Name)
			return hint.With(err, "GN868 have the site's list match the HCA of "+other.Name+" alone")
		}
	}
	return nil
}

// mostOccupants is how many processes checkIdle looks at: users begin them.
const mostOccupants = 4096

// checkIdle returns an error for an HCA that is in use: by a part of the kernel, or by a service of the node's
// that runs as root, as a parallel file system's does. moves says that the job has more of it than its device
// nodes, and take that the site gives it to jobs even if it is reserved for the host.
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

// keepHint says what to do about an HCA that the kernel uses.
const keepHint = "GN198 a job cannot have an HCA that is reserved for the host: leave it out of the mapping"

// byKernel says what the kernel uses an HCA for. If a user can have made it do so, it is no fault of the node's, or any
// user could drain it.
func byKernel(hca string, modules []string) error {
	err := fmt.Errorf("the kernel uses %s for %s", hca, strings.Join(modules, ", "))
	isSocket := func(m string) bool { return slices.Contains(socketModules, m) }
	isHost := func(m string) bool { return !isSocket(m) && !slices.Contains(mountModules, m) }
	switch {
	case slices.ContainsFunc(modules, isHost):
		return hint.With(err, keepHint)
	case slices.ContainsFunc(modules, isSocket):
		return &gres.Refusal{
			Reason: gres.UsedByUsers, Ask: hca, Why: err.Error() + ", as a user's socket made it do",
			Do: "GN375 keep users from that: install smc /bin/false and install rds /bin/false in /etc/modprobe.d; then rmmod the module",
		}
	}
	return &gres.Refusal{Reason: gres.UsedByUsers, Ask: hca, Why: err.Error() + ", which a user's look at a path of autofs can begin", Do: keepHint}
}

// socketModules use HCAs for the sockets of any user: of AF_SMC (net/smc/smc_ib.c:smc_ib_create_protection_domain)
// and of AF_RDS (net/rds/ib.c:rds_ib_add_one).
var socketModules = []string{"smc", "rds_rdma"}

// mountModules use HCAs for mounted file systems: NFS (net/sunrpc/xprtrdma) and SMB (fs/smb/client/smbdirect.c). autofs
// mounts one for any user.
var mountModules = []string{"rpcrdma", "cifs"}

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

// isKnowable returns an error for an interface that cannot be told from another one of the node once a job has changed
// its MAC: neither has a permanent MAC.
func isKnowable(i link.Interface, list []link.Interface) error {
	for _, o := range list {
		if o.Index != i.Index && o.ID == i.ID {
			return hint.With(
				fmt.Errorf("%s and %s are both interfaces of %s, and have no permanent MAC that tells them apart", i.Name, o.Name, i.ID),
				"GN199 give each VF a MAC by its PF, `ip link set PF vf N mac`, and have its driver bind it again",
			)
		}
	}
	return nil
}

// survives returns an error for an HCA whose RDMA device would end with the move of its interface.
func survives(keep bool, d scan.Device, moved string) error {
	if keep || !rdma.EndsWithInterface(d.Driver) {
		return nil
	}
	err := fmt.Errorf("driver %s ends %s when its interface %s is moved", d.Driver, d.Name, moved)
	return hint.With(err, `GN200 set interface = "keep" in its [[hca]]`)
}

// othersSurvive returns an error for an interface that other RDMA devices use, too: they end with its move.
func othersSurvive(v *scan.View, d scan.Device, moved *link.Interface) error {
	others, err := v.Sharing(d, moved.Index)
	if err != nil || len(others) == 0 {
		return err
	}
	err = fmt.Errorf("%s stands on %s, the interface of %s, and ends when that is moved", strings.Join(others, ", "), moved.Name, d.Name)
	return hint.With(err, "GN450 remove it before jobs get the HCA, `rdma link delete`; or leave the HCA out of the mapping")
}
