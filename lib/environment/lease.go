package lease

import (
	"fmt"
	"os"
	"path/filepath"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/netns"
	"gresnet/lib/overlay"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
	"gresnet/lib/table"
)

// Version is the format of env, the one file that the SPANK plugin reads.
const Version = 1

// head is how every env begins: what the plugin holds against the step that it runs in.
func head(j job.Job) string {
	return fmt.Sprintf("GRESNET_LEASE=%d\nGRESNET_JOB=%d\nGRESNET_RUN=%s\nGRESNET_UID=%d\n", Version, j.ID, j.Run, j.UID)
}

func refusedEnv(j job.Job, refusal *gres.Refusal) string {
	return head(j) + "GRESNET_REFUSED=" + printable(refusal.Error()) + "\n"
}

// inNodes stands in env for the namespace of a job that is in the node's network.
const inNodes = "node"

// namespace is what env says of the job's network namespace.
func (l *open) namespace(access config.Access) (string, error) {
	if access.Isolation == config.IsolateDevices {
		return inNodes, nil
	}
	ns, err := netns.Open(filepath.Join(l.world.Dir, "netns"))
	if err != nil {
		return "", err
	}
	defer ns.Close()
	return ns.String(), nil
}

// connections is what a job has beside its HCAs' networks.
type connections struct {
	uplink  *table.Uplink    // nil: none
	network *overlay.Network // nil: none
	srun    bool             // srun works in the job, for all of its nodes
}

// env returns the lines that tell the job of its connections. The plugin goes by GRESNET_SRUN, too.
func (c connections) env() (text string) {
	if c.uplink != nil {
		text += fmt.Sprintf("GRESNET_UPLINK=%s\n", c.uplink.Address)
	}
	if c.network != nil {
		text += fmt.Sprintf("GRESNET_ADDRESS=%s\n", c.network.Address())
	}
	if c.srun {
		text += "GRESNET_SRUN=yes\n"
	}
	return text
}

// commit makes the lease count.
func (l *open) commit(j job.Job, access config.Access, mode rdma.Mode, has connections, hcas []plan.HCA) error {
	ns, err := l.namespace(access)
	if err != nil {
		return err
	}
	told, err := l.exports(mode, hcas)
	if err != nil {
		return err
	}
	if err := l.writeLimits(hcas); err != nil {
		return err
	}
	if err := l.writeNames(has.uplink, has.network); err != nil {
		return err
	}
	text := head(j) + fmt.Sprintf("GRESNET_NETNS=%s\nGRESNET_MODE=%s\n", ns, mode)
	for _, v := range told {
		text += v.Name + "=" + v.Value + "\n"
	}
	return l.writeEnv(text + has.env())
}

// writeLimits writes what the job's cgroup is to be limited to, a line for each
// HCA as the kernel takes it (Documentation/admin-guide/cgroup-v2.rst, rdma.max).
func (l *open) writeLimits(hcas []plan.HCA) error {
	limits := l.node.Config.Limits
	if limits == (config.Limits{}) {
		return nil
	}
	text := ""
	for _, h := range hcas {
		text += h.Name
		if limits.Handles > 0 {
			text += fmt.Sprintf(" hca_handle=%d", limits.Handles)
		}
		if limits.Objects > 0 {
			text += fmt.Sprintf(" hca_object=%d", limits.Objects)
		}
		text += "\n"
	}
	if err := os.WriteFile(limitsIn(l.world.Dir), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the lease's limits: %w", err)
	}
	return nil
}

func (l *open) writeEnv(text string) error {
	path := host.EnvIn(l.world.Dir)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the lease: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the lease: %w", err)
	}
	return nil
}
