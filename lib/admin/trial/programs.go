package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/slurm"
	"gresnet/lib/state"
)

// theJob is the job for which gresnet try takes HCAs. Slurm never has it: a job's number within its cluster
// is in the lower 26 bits of the id and begins with 1 (slurm.h, MAX_JOB_ID; fed_mgr.h).
const theJob = 1 << 26

// The folder of the trial, which goes with it, and what is in it.
const (
	folder    = "/run/gresnet-try"
	siteConf  = folder + "/gresnet.toml" // the site's configuration, which gives the trial's job its HCAs
	slurmConf = folder + "/slurm.conf"   // for a node that has none
	ownState  = folder + "/state"        // for a node that has none
	tryCgroup = "gresnet-try"
)

func (t *Trial) lease() state.Lease { return t.state.Lease(theJob) }

// begin keeps other trials away and makes what the programs read. end removes it, unless a lease is left that
// the next trial returns.
func (t *Trial) begin() (end func() error, err error) {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	held, err := state.TryLockJob(folder, theJob)
	if errors.Is(err, state.ErrHeld) {
		return nil, hint.With(errors.New("another gresnet try runs"), "GN630 wait until it has ended: fuser -v "+folder+"/*")
	}
	if err != nil {
		return nil, err
	}
	end = func() error {
		var err error
		if t.cgroup != "" {
			_ = os.Remove(t.cgroup) // nothing is in it any more; an empty one does no harm
		}
		if !t.lease().Exists() {
			err = os.RemoveAll(folder)
		}
		return hint.Join(err, held.Close())
	}
	t.state = t.Host.State
	if isOwn := state.Dir(ownState).IsMade(); isOwn || !t.state.IsMade() {
		t.state = ownState // what other runs expect of jobs hangs on whether the node's is there
	}
	if err := hint.Join(t.standInForSlurm(), t.configure(nil), t.makeCgroup()); err != nil {
		return nil, hint.Join(err, end())
	}
	return end, nil
}

// standInForSlurm writes a slurm.conf for a node that has none, by which a prolog knows what the node needs:
// the address that its name has, and that of whoever is here by ssh.
func (t *Trial) standInForSlurm() error {
	n := t.Host
	if slurm.Find(n.Files, n.Slurm.Conf) != "" {
		return nil
	}
	text := fmt.Sprintf("NodeName=%s\nSlurmctldHost=%s\n", n.Slurm.Name, n.Slurm.Name)
	if from := strings.Fields(os.Getenv("SSH_CONNECTION")); len(from) > 0 {
		text += fmt.Sprintf("SlurmctldHost=ssh(%s)\n", from[0])
	}
	n.Slurm.Conf = slurmConf
	return os.WriteFile(slurmConf, []byte(text), 0o644)
}

// configure writes the site's configuration with a first policy that gives the job HCAs of one GRES, in place of
// the sources. A program would not do: /run may be mounted noexec. Nobody counts the trial as a job, and slurmctld
// hears nothing of it. Device nodes of other HCAs stay open on a node where no prolog has closed them.
func (t *Trial) configure(group []*hca) error {
	site := map[string]any{}
	if t.Config != "" {
		if _, err := toml.DecodeFile(t.Config, &site); err != nil {
			return err
		}
	}
	table := func(name string) map[string]any {
		m, is := site[name].(map[string]any)
		if !is {
			m = map[string]any{}
			site[name] = m
		}
		return m
	}
	gives := map[string]any{"count": 0}
	if len(group) > 0 {
		var indices []int
		for _, h := range group {
			indices = append(indices, h.Index)
		}
		gives = map[string]any{"gres": group[0].Gres, "indices": indices}
	}
	policies, _ := site["policy"].([]map[string]any)
	site["policy"] = append([]map[string]any{gives}, policies...)
	slurm := table("slurm")
	slurm["source"], slurm["drain_reason"] = []string{config.Fixed}, false
	for _, name := range []string{"metrics", "accounting"} {
		delete(site, name)
	}
	delete(table("rdma"), "mode")
	if t.state == ownState {
		table("access")["host"] = config.Open
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(site); err != nil {
		return err
	}
	return os.WriteFile(siteConf, text.Bytes(), 0o600)
}

// makeCgroup makes a cgroup that stands for the job's, where the kernel can have a guard.
func (t *Trial) makeCgroup() error {
	if t.Host.Guard.Possible() != nil {
		return nil
	}
	t.cgroup = filepath.Join(t.Host.Guard.Cgroup, tryCgroup)
	if err := os.Mkdir(t.cgroup, 0o755); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ran is what came of a run of a prolog or an epilog.
type ran struct {
	fault    string // empty: none
	warnings []string
	killed   bool
	time     time.Duration
}

// run runs a program as slurmd does, and kills it after a time, unless that is 0. An interrupt of the
// terminal's does not reach it; the end of the context does.
func (t *Trial) run(ctx context.Context, path string, kill time.Duration) ran {
	n, end := t.Host, syscall.SIGTERM
	if kill > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, kill)
		defer cancel()
		end = syscall.SIGKILL
	}
	cmd := exec.CommandContext(ctx, path, "--config", siteConf, "--state", string(t.state))
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), fmt.Sprintf("SLURM_JOB_ID=%d", theJob), fmt.Sprintf("SLURM_JOB_UID=%d", jobUser), fmt.Sprintf("SLURM_JOB_GID=%d", jobUser),
		"SLURMD_NODENAME=" + n.Slurm.Name, "SLURM_NODELIST=" + n.Slurm.Name, "SLURM_CONF=" + n.Slurm.Conf,
	}
	if n.Slurm.Conf == "" {
		cmd.Env = cmd.Env[:len(cmd.Env)-1]
	}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(end) }
	began := time.Now()
	err := cmd.Start()
	if err != nil {
		return ran{fault: err.Error()}
	}
	err = cmd.Wait()
	r := ran{time: time.Since(began)}
	if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); is && kill > 0 && status.Signaled() && status.Signal() == syscall.SIGKILL {
		r.killed = true
		return r
	}
	r.fault, r.warnings = heard(problems.String(), filepath.Base(path))
	switch {
	case err != nil && r.fault == "":
		r.fault = err.Error()
	case err == nil && path == t.Prolog:
		r.fault = t.refusal()
	}
	if err == nil && kill == 0 && (t.took[path] == 0 || r.time < t.took[path]) {
		t.took[path] = r.time
	}
	return r
}

// heard tells what went wrong, by what a program prints, and what it warns of.
func heard(text, name string) (fault string, warnings []string) {
	var faults []string
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), name+": ")
		if warning, is := strings.CutPrefix(line, "warning: "); is {
			warnings = append(warnings, warning)
		} else if line != "" {
			faults = append(faults, line)
		}
	}
	return strings.Join(faults, "; "), warnings
}

// refusal tells why a prolog that succeeded gave the job nothing.
func (t *Trial) refusal() string {
	lines := strings.Split(read(t.lease().Env()), "\n")
	const refused = "GRESNET_REFUSED="
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, refused) }); i >= 0 {
		return "refused: " + strings.TrimPrefix(lines[i], refused)
	}
	if lines[0] == "" {
		return "it gave the job nothing"
	}
	return ""
}
