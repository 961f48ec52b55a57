package environment

import (
	"fmt"
	"os"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// version is the version of env's format, which the SPANK plugin reads.
const version = 1

// head returns the lines with which every env begins. The plugin compares them with its own step.
func head(j job.Job) string {
	return fmt.Sprintf("GRESNET_LEASE=%d\nGRESNET_JOB=%d\nGRESNET_RUN=%s\nGRESNET_UID=%d\n", version, j.ID, j.Run, j.UID)
}

// Refuse writes a lease that says why the job gets nothing.
func Refuse(dir state.Lease, j job.Job, why string) error {
	return writeEnv(dir, head(j)+"GRESNET_REFUSED="+state.Printable(why)+"\n")
}

// Lease is a lease whose steps are all done, with what the job learns of it.
type Lease struct {
	Host    *host.Host
	World   *world.World
	Job     job.Job
	Access  config.Access
	Mode    rdma.Mode
	HCAs    []step.HCA
	Uplink  *table.Uplink   // nil: the job has none
	Network *jobnet.Network // the network between the job's nodes; nil: it has none
	Srun    bool            // srun works in the job, for all of its nodes
}

// Write writes all files of the lease, and at last env, which makes the lease count.
func (l Lease) Write() error {
	defer l.Host.Time("tell the job of it, commit")()
	ns, err := l.namespace()
	if err != nil {
		return err
	}
	told, err := l.exports()
	if err != nil {
		return err
	}
	if err := l.writeLimits(); err != nil {
		return err
	}
	if err := l.writeNames(); err != nil {
		return err
	}
	text := head(l.Job) + fmt.Sprintf("GRESNET_NETNS=%s\nGRESNET_MODE=%s\n", ns, l.Mode)
	for _, v := range told {
		text += v.Name + "=" + v.Value + "\n"
	}
	return writeEnv(l.World.Dir, text+l.connections())
}

// inNodes is written for the namespace of a job that stays in the node's network.
const inNodes = "node"

// namespace returns what env says about the job's network namespace.
func (l Lease) namespace() (string, error) {
	if l.Access.Isolation == config.IsolateDevices {
		return inNodes, nil
	}
	ns, err := netns.Open(l.World.Dir.Netns())
	if err != nil {
		return "", err
	}
	defer ns.Close()
	return ns.String(), nil
}

// connections returns the lines that tell the job how it reaches others besides its HCAs' networks.
// The plugin goes by GRESNET_SRUN, too.
func (l Lease) connections() (text string) {
	if l.Uplink != nil {
		text += fmt.Sprintf("GRESNET_UPLINK=%s\n", l.Uplink.Address)
	}
	if l.Network != nil {
		text += fmt.Sprintf("GRESNET_ADDRESS=%s\n", l.Network.Address())
	}
	if l.Srun {
		text += "GRESNET_SRUN=yes\n"
	}
	return text
}

// writeLimits writes the limits of the job's cgroup, a line for each HCA as the kernel takes it
// (Documentation/admin-guide/cgroup-v2.rst, rdma.max).
func (l Lease) writeLimits() error {
	limits := l.Host.Config.Limits
	if limits == (config.Limits{}) {
		return nil
	}
	text := ""
	named := map[string]bool{} // a job may have several slots of an HCA
	for _, h := range l.HCAs {
		if named[h.Name] {
			continue
		}
		named[h.Name] = true
		text += h.Name
		if limits.Handles > 0 {
			text += fmt.Sprintf(" hca_handle=%d", limits.Handles)
		}
		if limits.Objects > 0 {
			text += fmt.Sprintf(" hca_object=%d", limits.Objects)
		}
		text += "\n"
	}
	if err := os.WriteFile(l.World.Dir.Limits(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the lease's limits: %w", err)
	}
	return nil
}

func writeEnv(dir state.Lease, text string) error {
	if err := os.WriteFile(dir.NewEnv(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the lease: %w", err)
	}
	if err := os.Rename(dir.NewEnv(), dir.Env()); err != nil {
		return fmt.Errorf("write the lease: %w", err)
	}
	return nil
}

// mellanoxHook is enroot's, as its packages install it. It chooses HCAs by their place in lists of
// /sys, and keeps a container from starting where those lists do not match.
const mellanoxHook = "/etc/enroot/hooks.d/99-mellanox.sh"

// withoutHook adds to the variables that a site exports the one that switches the hook off, if the
// hook is on: enroot runs it if it is executable.
func withoutHook(export []string, hook string) []string {
	info, err := os.Stat(hook)
	if err != nil || info.Mode()&0o111 == 0 || slices.Contains(export, config.MellanoxNone) {
		return export
	}
	return append(slices.Clone(export), config.MellanoxNone)
}
