package guest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// inJob fails unless there are so many namespaces in what steps wrote, all of
// them jobs', and returns them.
func inJob(t *testing.T, out string, count int) []string {
	t.Helper()
	var nets []string
	for _, word := range strings.Fields(out) {
		if strings.HasPrefix(word, "net:[") {
			nets = append(nets, word)
		}
	}
	host := strings.TrimSpace(run(t, whereAmI))
	if len(nets) != count || strings.Contains(strings.Join(nets, " "), host) {
		t.Fatalf("wanted %d tasks inside, the node is %s:\n%s", count, host, out)
	}
	return nets
}

func TestStepsOfEveryKindOfJobAreInside(t *testing.T) {
	slurm(t)
	before := picture(t)

	t.Run("salloc", func(t *testing.T) {
		out := as(t, "alice", "salloc --gres=nic:1 bash -c 'srun "+whereAmI+"; srun "+whereAmI+"'")
		if nets := inJob(t, out, 2); nets[0] != nets[1] {
			t.Errorf("two steps of a job in two namespaces: %q", nets)
		}
	})
	t.Run("an array", func(t *testing.T) {
		as(t, "alice", "rm -f /tmp/array-*; sbatch --wait --array=0-1 -o /tmp/array-%a --gres=nic:1 --wrap 'srun "+whereAmI+"; srun sleep 2'")
		nets := inJob(t, run(t, "cat /tmp/array-*"), 2)
		if nets[0] == nets[1] {
			t.Errorf("elements share a namespace: %q", nets)
		}
	})
	t.Run("overlapping steps", func(t *testing.T) {
		job := submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
		eventually(t, "the step runs", func() bool { return hasStep(job) })
		inJob(t, as(t, "alice", "srun --jobid="+job+" --overlap "+whereAmI), 1)
		cancel(t, job)
	})
	t.Run("task prolog and epilog", func(t *testing.T) {
		for name, text := range map[string]string{
			"prolog": "echo \"print prolog $(" + whereAmI + ")\"",
			"epilog": whereAmI + " >/tmp/task-epilog.out",
		} {
			if err := os.WriteFile("/tmp/task-"+name, []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		out := as(t, "alice", "srun --gres=nic:1 --task-prolog=/tmp/task-prolog --task-epilog=/tmp/task-epilog "+whereAmI)
		if nets := inJob(t, out, 2); nets[0] != nets[1] {
			t.Errorf("the task's prolog and the task are in %q", nets)
		}
		if got, host := run(t, "cat /tmp/task-epilog.out"), run(t, whereAmI); got != host {
			t.Errorf("the task's epilog is in %s, not the node's %s", got, host)
		}
	})
	eventually(t, "the epilogs have run", noLease)
	same(t, before)
}

// job_container/tmpfs gives each job a mount namespace, made by the extern step
// when the lease is there: the plugin mounts inside of it.
func TestStepsInJobContainersAreInside(t *testing.T) {
	slurm(t)
	before := picture(t)
	run(t, "printf 'AutoBasePath=true\nBasePath=/var/containers\n' >/etc/slurm/job_container.conf")
	slurmAnew(t, "--conf JobContainerType=job_container/tmpfs")
	t.Cleanup(func() {
		run(t, "rm /etc/slurm/job_container.conf")
		slurmAnew(t)
	})

	run(t, "touch /tmp/of-the-node")
	out := as(t, "alice", "srun --gres=nic:1 bash -c '"+whereAmI+"; ls /tmp | wc -l; ls /dev/infiniband | wc -l; cat /sys/fs/cgroup/cgroup.controllers; ls /sys/class/net | xargs'")
	inJob(t, out, 1)
	lines := strings.Split(out, "\n")
	if len(lines) != 6 || lines[1] != "0" || lines[2] != "2" || !strings.Contains(lines[3], "memory") || strings.Contains(lines[4], "eth0") {
		t.Errorf("wanted an empty /tmp, two devices, controllers, and no eth0:\n%s", out)
	}
	eventually(t, "the epilog has run", noLease)
	same(t, before)
}

// namespaceLinux has Slurm make namespaces for jobs, as namespace.yaml says.
const namespaceLinux = `defaults:
  auto_base_path: true
  base_path: /var/containers
  clone_ns_flags: %s
  dirs: %s
`

// mungeElsewhere serves those who have another /run: Slurm itself would hang without.
const mungeElsewhere = `
install -d -o munge -g munge -m 755 /var/munge
cd /var/munge
runuser -u munge -- munged --socket=$PWD/socket --pid-file=$PWD/pid --log-file=$PWD/log --seed-file=$PWD/seed
`

// namespace/linux has slurmstepd in the job's mount namespace from the start, and the
// first process of its PID namespace, too.
func TestStepsInSlurmsNamespacesAreInsideOrFail(t *testing.T) {
	slurm(t)
	if _, err := try("ls /usr/lib/*/slurm-wlm/namespace_linux.so"); err != nil {
		t.Skip("this Slurm has no namespace/linux: it came with 25.11")
	}
	before := picture(t)
	run(t, mungeElsewhere)
	t.Cleanup(func() {
		run(t, "rm -f /etc/slurm/namespace.yaml; kill $(cat /var/munge/pid)")
		slurmAnew(t)
	})
	for _, c := range []struct{ name, flags, dirs, says string }{
		{"mounts", "CLONE_NEWNS", "/tmp,/dev/shm", ""},
		{"mounts and processes", "CLONE_NEWNS|CLONE_NEWPID", "/tmp,/dev/shm", ""},
		{"users", "CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWUSER", "/tmp,/dev/shm", "hint: take CLONE_NEWUSER out of namespace.yaml"},
		{"a /run of its own", "CLONE_NEWNS", "/tmp,/run", "hidden from the task"},
		{"a /run and processes of its own", "CLONE_NEWNS|CLONE_NEWPID", "/tmp,/run", "hidden from the task"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(namespaceLinux, c.flags, c.dirs)
			if err := os.WriteFile("/etc/slurm/namespace.yaml", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			// Slurm has BPF tokens for device programs in user namespaces, and kernel 6.1 has none.
			slurmAnew(t, "--unconstrained", "--conf NamespaceType=namespace/linux", "--conf AuthInfo=cred_expire=5,socket=/var/munge/socket")
			out, err := tryAs("alice", "timeout 60 srun --gres=nic:1 bash -c '"+whereAmI+"; ls /sys/class/net | xargs; ls /dev/infiniband | wc -l'")
			if c.says == "" {
				inJob(t, out, 1)
				if err != nil || strings.Contains(out, "eth0") || !strings.HasSuffix(out, "\n2\n") {
					t.Errorf("wanted two devices and no eth0: %v\n%s", err, out)
				}
			} else if err == nil || !strings.Contains(out, c.says) || strings.Contains(out, "net:[") {
				t.Errorf("wanted %q: %v\n%s", c.says, err, out)
			}
			eventually(t, "the epilog has run", noLease)
		})
	}
	same(t, before)
}

// slurmdCounts is what a step might leave in slurmd and on the node.
const slurmdCounts = `
pid=$(cat /run/slurmd.pid)
echo "descriptors $(ls /proc/$pid/fd | wc -l)"
echo "threads $(ls /proc/$pid/task | wc -l)"
echo "mounts $(wc -l </proc/$pid/mountinfo)"
echo "namespaces $(lsns -n -o NS | sort -u | wc -l)"
echo "slurmstepds $(pgrep -c slurmstepd || true)"
`

// isRelayed says so if what the task takes for its PMIx server listens in its own network.
const isRelayed = `grep -q "$(printf ":%04X 00000000:0000 0A" ${PMIX_SERVER_URI2##*:})" /proc/net/tcp && echo relayed`

func TestManyStepsInARowLeaveNothingInSlurmd(t *testing.T) {
	slurm(t)
	if os.Getenv("GRESNET_TEST") != "long" {
		t.Skip("takes long: run it with `make test-long`")
	}
	const steps = 300
	before := picture(t)
	as(t, "alice", "srun --gres=nic:1 true")
	eventually(t, "the epilog has run", noLease)
	counts := run(t, slurmdCounts)
	program, relayed := "bash -c "+quote(whereAmI), 0
	if byPMIx(t) != "" {
		program, relayed = "bash -c "+quote(whereAmI+"; "+isRelayed), steps/2
	}
	text := fmt.Sprintf("for i in $(seq %d); do srun %s && srun%s %s || break; done | sort | uniq -c", steps/2, whereAmI, byPMIx(t), program)
	out := as(t, "alice", "sbatch -W -o /tmp/many.out --gres=nic:1 --wrap "+quote(text)+" >/dev/null; cat /tmp/many.out")
	eventually(t, "the epilog has run", noLease)
	inside := regexp.MustCompile(`(?m)^ *(\d+) net:`).FindAllStringSubmatch(out, -1)
	if len(inside) != 1 || inside[0][1] != fmt.Sprint(steps) {
		t.Errorf("wanted %d steps in one namespace:\n%s", steps, out)
	}
	if relayed > 0 && !strings.Contains(out, fmt.Sprintf(" %d relayed\n", relayed)) {
		t.Errorf("wanted %d steps with a relay of PMIx:\n%s", relayed, out)
	}
	eventually(t, "slurmd has what it had:\n"+counts, func() bool { return run(t, slurmdCounts) == counts })
	same(t, before)
}
