package slurmref

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/lib/slurm"
	"gresnet/test/netnstest"
)

// A cluster's hosts share slurm.conf, plugstack.conf and the scripts as conf/ has them. node1 has gresnet, the other
// hosts have nothing of it.
func TestWhatAllHostsHaveAlikeIsSafeOnAHostWithoutGresnetAndFailsClosedOnANodeWithIt(t *testing.T) {
	netnstest.Slow(t)
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make a cluster of namespaces")
	}
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			root := Root(t, suite)
			folder := t.TempDir()
			version, known := slurm.InstalledVersion(os.DirFS(root), []string{"/" + plugins})
			if !known {
				t.Fatal("no version")
			}
			cgroup := "CgroupPlugin=disabled\n"
			if suite == "bookworm" {
				cgroup = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/tmp\n"
			}
			for name, text := range map[string]string{
				"etc-slurm/slurm.conf": clusterConf + shipped(t, "slurm.conf"), "etc-slurm/cgroup.conf": cgroup,
				"etc-slurm/plugstack.conf": "include /etc/gresnet/plugstack.conf\n",
				"etc-slurm/gresnet-prolog": shipped(t, "prolog.d/00-gresnet"), "etc-slurm/gresnet-epilog": shipped(t, "epilog.d/zz-gresnet"),
				"node1/etc/gresnet/plugstack.conf": shipped(t, "plugstack.conf"),
				"node1/usr/sbin/gresnet-prolog":    "#!/bin/sh\necho \"$SLURM_JOB_ID\" >>/prologs\n",
				"node1/usr/sbin/gresnet-epilog":    "#!/bin/sh\necho \"$SLURM_JOB_ID\" >>/epilogs\n",
				"plugin.c":                         fmt.Sprintf(stub, uint32(version)),
				"script":                           mixed,
			} {
				file := filepath.Join(folder, name)
				use(t, os.MkdirAll(filepath.Dir(file), 0o755))
				use(t, os.WriteFile(file, []byte(text), 0o755))
			}
			use(t, os.MkdirAll(filepath.Join(folder, "node1", plugins), 0o755))
			run(t, "gcc", "-shared", "-fPIC", "-o", filepath.Join(folder, "node1", plugins, "spank_gresnet.so"), filepath.Join(folder, "plugin.c"))
			out, err := exec.Command("unshare", "-mnpf", "--mount-proc", "./cluster", root, folder).CombinedOutput()
			var got []string
			for line := range strings.Lines(string(out)) {
				if said, is := strings.CutPrefix(line, "said: "); is {
					got = append(got, strings.TrimSpace(said))
				}
			}
			if want := strings.Join(mixedWant, "\n"); err != nil || strings.Join(got, "\n") != want {
				t.Errorf("Slurm %s: %v, got\n%s\nwant\n%s\nof\n%s", version, err, strings.Join(got, "\n"), want, out)
			}
		})
	}
}

func shipped(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../conf", name))
	use(t, err)
	return string(text)
}

const clusterConf = `ClusterName=c
SlurmctldHost=ctl(192.0.2.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MailProg=/bin/true
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=0
SlurmdParameters=config_overrides
NodeName=node1 NodeAddr=192.0.2.2 CPUs=1
NodeName=node2 NodeAddr=192.0.2.3 CPUs=1
PartitionName=all Nodes=ALL Default=yes
`

// stub is a plugin that says where it is loaded.
const stub = `#include <stdio.h>
const char plugin_name[] = "gresnet", plugin_type[] = "spank";
const unsigned int plugin_version = %d, spank_plugin_version = 1;
int slurm_spank_task_init(void *spank, int argc, char *argv[]) { (void)spank, (void)argc, (void)argv; printf("in its job\n"); fflush(stdout); return 0; }
`

// mixed tries jobs on each host, then takes from node1 the plugin, and then the programs.
const mixed = `set +e
up
say() { sed "s/^/said: $1: /"; }
states() { on ctl sinfo -h -N -o '%N %T' | say nodes; }
on ctl srun -w node2 hostname 2>&1 | say without
on ctl srun -w node1 hostname 2>&1 | say with
until [ -s /run/hosts/node1/epilogs ]; do sleep 0.1; done
cat /run/hosts/node1/prologs /run/hosts/node1/epilogs | wc -l | say runs
until [ "$(on ctl sinfo -h -o %T | sort -u)" = idle ]; do sleep 0.1; done
states
rm /run/hosts/node1/usr/lib/*/slurm-wlm/spank_gresnet.so
on ctl timeout 60 srun -w node1 echo has run 2>/dev/null | say 'no plugin'
on ctl scontrol update nodename=node1 state=resume || true
rm /run/hosts/node1/usr/sbin/gresnet-prolog
on ctl timeout 20 srun -w node1 echo has run 2>/dev/null | say 'no program'
until [ "$(on ctl sinfo -h -n node1 -o %T)" = drained ]; do sleep 0.1; done
on ctl timeout 60 srun -w node2 hostname 2>&1 | say without
until [ "$(on ctl sinfo -h -n node2 -o %T)" = idle ]; do sleep 0.1; done
states
`

var mixedWant = []string{
	"without: node2",
	"with: in its job",
	"with: node1",
	"runs: 2",
	"nodes: node1 idle",
	"nodes: node2 idle",
	"without: node2",
	"nodes: node1 drained",
	"nodes: node2 idle",
}
