package slurm

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
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
	host := strings.TrimSpace(vm.Run(t, vm.WhereAmI))
	if len(nets) != count || strings.Contains(strings.Join(nets, " "), host) {
		t.Fatalf("wanted %d tasks inside, the node is %s:\n%s", count, host, out)
	}
	return nets
}

func TestStepsOfEveryKindOfJobAreInside(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)

	t.Run("salloc", func(t *testing.T) {
		out := vm.As(t, "alice", "salloc --gres=nic:1 bash -c 'srun "+vm.WhereAmI+"; srun "+vm.WhereAmI+"'")
		if nets := inJob(t, out, 2); nets[0] != nets[1] {
			t.Errorf("two steps of a job in two namespaces: %q", nets)
		}
	})
	t.Run("an array", func(t *testing.T) {
		vm.As(t, "alice", "rm -f /tmp/array-*; sbatch --wait --array=0-1 -o /tmp/array-%a --gres=nic:1 --wrap 'srun "+vm.WhereAmI+"; srun sleep 2'")
		nets := inJob(t, vm.Run(t, "cat /tmp/array-*"), 2)
		if nets[0] == nets[1] {
			t.Errorf("elements share a namespace: %q", nets)
		}
	})
	t.Run("overlapping steps", func(t *testing.T) {
		job := vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
		vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(job) })
		inJob(t, vm.As(t, "alice", "srun --jobid="+job+" --overlap "+vm.WhereAmI), 1)
		vm.Cancel(t, job)
	})
	t.Run("task prolog and epilog", func(t *testing.T) {
		for name, text := range map[string]string{
			"prolog": "echo \"print prolog $(" + vm.WhereAmI + ")\"",
			"epilog": vm.WhereAmI + " >/tmp/task-epilog.out",
		} {
			if err := os.WriteFile("/tmp/task-"+name, []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		out := vm.As(t, "alice", "srun --gres=nic:1 --task-prolog=/tmp/task-prolog --task-epilog=/tmp/task-epilog "+vm.WhereAmI)
		if nets := inJob(t, out, 2); nets[0] != nets[1] {
			t.Errorf("the task's prolog and the task are in %q", nets)
		}
		if got, host := vm.Run(t, "cat /tmp/task-epilog.out"), vm.Run(t, vm.WhereAmI); got != host {
			t.Errorf("the task's epilog is in %s, not the node's %s", got, host)
		}
	})
	vm.Eventually(t, "the epilogs have run", vm.NoLease)
	vm.Same(t, before)
}

// job_container/tmpfs gives each job a mount namespace, made by the extern step
// when the lease is there: the plugin mounts inside of it.
func TestStepsInJobContainersAreInside(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.Run(t, "printf 'AutoBasePath=true\nBasePath=/var/containers\n' >/etc/slurm/job_container.conf")
	vm.RestartSlurm(t, "--conf JobContainerType=job_container/tmpfs")
	t.Cleanup(func() {
		vm.Run(t, "rm /etc/slurm/job_container.conf")
		vm.RestartSlurm(t)
	})

	vm.Run(t, "touch /tmp/of-the-node")
	out := vm.As(t, "alice", "srun --gres=nic:1 bash -c '"+vm.WhereAmI+"; ls /tmp | wc -l; ls /dev/infiniband | wc -l; cat /sys/fs/cgroup/cgroup.controllers; ls /sys/class/net | xargs'")
	inJob(t, out, 1)
	lines := strings.Split(out, "\n")
	if len(lines) != 6 || lines[1] != "0" || lines[2] != "1" || !strings.Contains(lines[3], "memory") || strings.Contains(lines[4], "roce1") {
		t.Errorf("wanted an empty /tmp, one device, controllers, and no roce1:\n%s", out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
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
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	if _, err := vm.Try("ls /usr/lib/*/slurm-wlm/namespace_linux.so"); err != nil {
		t.Skip("this Slurm has no namespace/linux: it came with 25.11")
	}
	before := vm.Picture(t)
	vm.Run(t, mungeElsewhere)
	t.Cleanup(func() {
		vm.Run(t, "rm -f /etc/slurm/namespace.yaml; kill $(cat /var/munge/pid)")
		vm.RestartSlurm(t)
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
			vm.RestartSlurm(t, "--unconstrained", "--conf NamespaceType=namespace/linux", "--conf AuthInfo=cred_expire=30,socket=/var/munge/socket")
			out, err := vm.TryAs("alice", vm.Timeout+"srun --gres=nic:1 bash -c '"+vm.WhereAmI+"; ls /sys/class/net | xargs; ls /dev/infiniband | wc -l'")
			if c.says == "" {
				inJob(t, out, 1)
				if err != nil || strings.Contains(out, "roce1") || !strings.HasSuffix(out, "\n1\n") {
					t.Errorf("wanted one device and no roce1: %v\n%s", err, out)
				}
			} else if err == nil || !strings.Contains(out, c.says) || strings.Contains(out, "net:[") {
				t.Errorf("wanted %q: %v\n%s", c.says, err, out)
			}
			vm.Eventually(t, "the epilog has run", vm.NoLease)
		})
	}
	vm.Same(t, before)
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
	vm.Needs(t, vm.Both, vm.Long)
	vm.Slurm(t)
	if os.Getenv("GRESNET_TEST") != "long" {
		t.Skip("takes long: run it with `make test-long`")
	}
	const steps = 300
	before := vm.Picture(t)
	vm.As(t, "alice", "srun --gres=nic:1 true")
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	counts := vm.Run(t, slurmdCounts)
	program, relayed := "bash -c "+vm.Quote(vm.WhereAmI), 0
	if byPMIx(t) != "" {
		program, relayed = "bash -c "+vm.Quote(vm.WhereAmI+"; "+isRelayed), steps/2
	}
	text := fmt.Sprintf("for i in $(seq %d); do srun %s && srun%s %s || break; done | sort | uniq -c", steps/2, vm.WhereAmI, byPMIx(t), program)
	out := vm.As(t, "alice", "sbatch -W -o /tmp/many.out --gres=nic:1 --wrap "+vm.Quote(text)+" >/dev/null; cat /tmp/many.out")
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	inside := regexp.MustCompile(`(?m)^ *(\d+) net:`).FindAllStringSubmatch(out, -1)
	if len(inside) != 1 || inside[0][1] != fmt.Sprint(steps) {
		t.Errorf("wanted %d steps in one namespace:\n%s", steps, out)
	}
	if relayed > 0 && !strings.Contains(out, fmt.Sprintf(" %d relayed\n", relayed)) {
		t.Errorf("wanted %d steps with a relay of PMIx:\n%s", relayed, out)
	}
	vm.Eventually(t, "slurmd has what it had:\n"+counts, func() bool { return vm.Run(t, slurmdCounts) == counts })
	vm.Same(t, before)
}
