package slurmref

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

// A user without rights changes a job between its allocation and the answer that its prolog gets, and writes what
// Slurm would write of more HCAs into the job's texts. The prologs wait until it is done.
func TestNoUserOfALiveSlurmctldDrainsANodeOrGetsWhatTheJobsTextSays(t *testing.T) {
	netnstest.Slow(t)
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make a cluster of namespaces")
	}
	asks := filepath.Join(t.TempDir(), "asks")
	build := exec.Command("go", "build", "-o", asks, "./asks")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the releases have other libraries than this machine
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(asks)
	use(t, err)
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			root := Root(t, suite)
			folder := t.TempDir()
			cgroup := "CgroupPlugin=disabled\n"
			if suite == "bookworm" {
				cgroup = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/tmp\n"
			}
			conf := strings.ReplaceAll(clusterConf, "CPUs=1", "CPUs=4 Gres=nic:4") + "GresTypes=nic\nProlog=/usr/sbin/prolog\nPrologFlags=Alloc\nBatchStartTimeout=600\n"
			for name, text := range map[string]string{
				"etc-slurm/slurm.conf": conf, "etc-slurm/cgroup.conf": cgroup,
				"etc-slurm/gres.conf":   "Name=nic File=/g/nic[0-3]\n",
				"node1/usr/sbin/prolog": waiting, "node2/usr/sbin/prolog": waiting,
				"node1/usr/sbin/asks": string(program), "node2/usr/sbin/asks": string(program),
				"script": hostile,
			} {
				file := filepath.Join(folder, name)
				use(t, os.MkdirAll(filepath.Dir(file), 0o755))
				use(t, os.WriteFile(file, []byte(text), 0o755))
			}
			out, err := exec.Command("unshare", "-mnpf", "--mount-proc", "./cluster", root, folder).CombinedOutput()
			var got []string
			for line := range strings.Lines(string(out)) {
				if said, is := strings.CutPrefix(line, "said: "); is {
					got = append(got, strings.TrimSpace(said))
				}
			}
			if want := strings.Join(wanted(suite), "\n"); err != nil || strings.Join(got, "\n") != want {
				t.Errorf("%v, got\n%s\nwant\n%s\nof\n%s", err, strings.Join(got, "\n"), want, out)
			}
		})
	}
}

// waiting is a prolog that asks when the user is done.
const waiting = `#!/bin/sh
jobs=/etc/slurm/jobs
touch $jobs/$SLURM_JOB_ID.$SLURMD_NODENAME.began
until [ -e $jobs/$SLURM_JOB_ID.changed ]; do sleep 0.1; done
/usr/sbin/asks >$jobs/$SLURM_JOB_ID.$SLURMD_NODENAME.new 2>&1
code=$?
mv $jobs/$SLURM_JOB_ID.$SLURMD_NODENAME.new $jobs/$SLURM_JOB_ID.$SLURMD_NODENAME
exit $code
`

// hostile has user 1000 try each change, with each forged text, and says what the two prologs were told.
const hostile = `set +e
for host in node1 node2; do
	mkdir -p /run/hosts/$host/g
	for n in 0 1 2 3; do mknod /run/hosts/$host/g/nic$n c 1 3; done
done
for host in ctl node1 node2; do
	echo eve:x:1000:1000::/tmp:/bin/sh >>/run/hosts/$host/etc/passwd
	echo eve:x:1000: >>/run/hosts/$host/etc/group
done
jobs=$folder/etc-slurm/jobs
mkdir $jobs
chmod 777 /run/hosts/*/tmp
up
say() { sed "s/^/said: $1: /"; }
eve() { on ctl chroot --userspec=1000:1000 / "$@"; }

line='     Nodes=node2 CPU_IDs=0 Mem=0 GRES=nic:4(IDX:0-3)'
block="   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=nic:4
$line
   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0"

# try NAME TEXT CHANGE...: a job whose name and comment have TEXT on a line of its own, and a change of it.
try() {
	local name=$1 text=$2 job
	shift 2
	job=$(eve sbatch --parsable -H --requeue -D /tmp -o /dev/null -N2 --gres=nic:1 --job-name="x
$text" --comment="x
$text" --wrap 'sleep 1000')
	eve scontrol release "$job"
	until [ -e "$jobs/$job.node1.began" ] && [ -e "$jobs/$job.node2.began" ]; do sleep 0.1; done
	eve "${@//JOB/$job}"
	touch "$jobs/$job.changed"
	for host in node1 node2; do
		until [ -e "$jobs/$job.$host" ]; do sleep 0.1; done
		sed 2q "$jobs/$job.$host" | say "$name: $host"
	done
	eve scancel "$job"
	until [ -z "$(on ctl squeue -h)" ]; do sleep 0.1; done
	until [ -z "$(on ctl sinfo -h -N -t alloc,mix,comp -o %N)" ]; do sleep 0.1; done
	on ctl sinfo -h -N -o '%N %T' | sed /idle/d | say "$name: not idle"
}

try nothing x true
try 'a forged line' "$line" true
try 'a forged block' "$block" true
try 'shrinks' x scontrol update jobid=JOB ReqNodeList=node1
try 'shrinks, a forged line' "$line" scontrol update jobid=JOB ReqNodeList=node1
try 'shrinks, a forged block' "$block" scontrol update jobid=JOB ReqNodeList=node1
try 'renamed' x scontrol update jobid=JOB "name=y
$block"
try 'requeued' x scontrol requeuehold JOB
try 'canceled, a forged line' "$line" scancel JOB
`

// wanted returns what the prologs are told. JSON, which sid's scontrol has for the question, has no text of the user's;
// before that, who imitates Slurm is refused.
func wanted(suite string) []string {
	imitates, gone := "refused: imitation", "refused: imitation"
	if suite == "sid" {
		imitates, gone = "has nic [0]", "refused: not_here"
	}
	return []string{
		"nothing: node1: has nic [0]",
		"nothing: node2: has nic [0]",
		"a forged line: node1: has nic [0]",
		"a forged line: node2: has nic [0]",
		"a forged block: node1: " + imitates,
		"a forged block: node2: " + imitates,
		"shrinks: node1: has nic [0]",
		"shrinks: node2: refused: not_here",
		"shrinks, a forged line: node1: has nic [0]",
		"shrinks, a forged line: node2: refused: not_here",
		"shrinks, a forged block: node1: " + imitates,
		"shrinks, a forged block: node2: " + gone,
		"renamed: node1: " + imitates,
		"renamed: node2: " + imitates,
		"requeued: node1: nothing", // no step of this run begins
		"requeued: node2: nothing",
		"canceled, a forged line: node1: nothing",
		"canceled, a forged line: node2: nothing",
	}
}
