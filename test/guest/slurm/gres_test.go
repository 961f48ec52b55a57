package slurm

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// slurmsIndex returns the index of the NIC that Slurm gave a job.
func slurmsIndex(t *testing.T, job string) string {
	t.Helper()
	out := vm.Run(t, "scontrol show job -d "+job)
	m := regexp.MustCompile(`GRES=nic:1\(IDX:(\d+)\)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("Slurm does not say which NIC job %s has:\n%s", job, out)
	}
	return m[1]
}

// The gres.conf is the one that `scan` prints, with the files that it makes.
func TestEachJobHasTheHCAThatSlurmNamesAlsoWhenSlurmdIsRestarted(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.Many, vm.EverySlurm)
	vm.Slurm(t)
	names := vm.HCAs(t)
	before := vm.Picture(t)
	program := vm.Repo() + "/bin/gresnet"
	vm.Run(t, program+" scan --gres-files && "+program+" scan --gres-conf >/tmp/nics.conf")
	// Many first steps at once take longer than a credential of this test bed lives.
	vm.RestartSlurm(t, "--nics /tmp/nics.conf --conf AuthInfo=cred_expire=600")
	vm.WriteConfig(t, vm.AskScontrol)
	t.Cleanup(func() {
		vm.Run(t, "scancel -u alice")
		vm.Eventually(t, "the epilogs have run", vm.NoLease)
		vm.WriteConfig(t, vm.Config)
		vm.RestartSlurm(t)
	})
	order := strings.Fields(vm.Run(t, program+" scan --json | jq -r '.hcas[].name'"))

	jobs := make([]string, len(names))
	for i := range jobs {
		jobs[i] = vm.Submit(t, "alice", "--gres=nic:1", `srun bash -c 'echo "has $GRESNET_HCAS" $(ls /dev/infiniband | wc -l); sleep 1000'`)
	}
	for _, job := range jobs {
		vm.Eventually(t, "the step of job "+job+" runs", func() bool {
			out, err := os.ReadFile("/tmp/" + job + ".out")
			return err == nil && strings.Contains(string(out), "\nhas ")
		})
	}
	had := map[string]string{}
	for _, job := range jobs {
		index := slurmsIndex(t, job)
		var n int
		fmt.Sscan(index, &n)
		if other, twice := had[index]; twice {
			t.Errorf("jobs %s and %s both have NIC %s", job, other, index)
		}
		had[index] = job
		if got, want := vm.Claims(t, job), index+"="+order[n]; got != want {
			t.Errorf("job %s has claimed %s, Slurm says %s", job, got, want)
		}
		if got := vm.Run(t, "cat /tmp/"+job+".out"); !strings.HasSuffix(got, "\nhas "+order[n]+" 1\n") {
			t.Errorf("the step of job %s says %q, wanted %s, and its device alone", job, got, order[n])
		}
	}

	leased := vm.Run(t, vm.ListTable)
	pid := strings.TrimSpace(vm.Run(t, "cat /run/slurmd.pid"))
	vm.Run(t, "kill "+pid+"; "+vm.Timeout+"tail --pid="+pid+" -s 0.1 -f /dev/null; slurmd")
	vm.Eventually(t, "slurmd has said who it is", func() bool {
		out, _ := vm.Try("sinfo -h -o %T")
		return strings.HasPrefix(out, "mixed") || strings.HasPrefix(out, "alloc")
	})
	if now := vm.Run(t, vm.ListTable); now != leased {
		t.Errorf("a restart of slurmd changed the claims:\n%s", now)
	}
	if out := vm.As(t, "alice", "srun --jobid="+jobs[0]+" --overlap bash -c 'echo $GRESNET_HCAS'"); strings.TrimSpace(out) != order[vm.Atoi(slurmsIndex(t, jobs[0]))] {
		t.Errorf("a step after the restart has %s", out)
	}
	vm.Run(t, "scancel "+strings.Join(jobs, " "))
	for _, job := range jobs {
		vm.Ended(t, job)
	}
	vm.Same(t, before)
}

// A step may ask for fewer NICs than its job has. The HCAs are the job's.
func TestAStepSeesAllHCAsOfItsJobWhateverItsOwnGRES(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	out := vm.Script(t, "--gres=nic:2", "srun --gres=nic:1 bash -c 'echo $GRESNET_HCAS'; srun --gres=none bash -c 'echo $GRESNET_HCAS'")
	lines := strings.Fields(out)
	if len(lines) < 2 || strings.Count(lines[len(lines)-1], ",") != 1 || lines[len(lines)-1] != lines[len(lines)-2] {
		t.Errorf("the steps do not both have the job's two HCAs:\n%s", out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

// opened tells which connections a program and its children make over IP, and what the
// program says.
func opened(t *testing.T, program, job string) (connections []string, said string) {
	t.Helper()
	const log = "/tmp/connections"
	said, _ = vm.Try(vm.SlurmdEnv + job + " strace -E " + vm.NoPreemption + " -f -qq -e signal=none -e trace=execve,connect,sendto,sendmsg -o " + log + " " + vm.Repo() + "/bin/gresnet-" + program + " 2>&1")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "execve(") {
		t.Fatalf("the log has not even the start of the program:\n%s", text)
	}
	return regexp.MustCompile(`sa_family=AF_INET.*`).FindAllString(string(text), -1), said
}

func TestOnlyTheSourceScontrolAsksSlurmctld(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	names := vm.ByIndex(t)
	last := len(names) - 1
	local := "[slurm]\nsource = [\"gpu\", \"node\", \"policy\"]\n[[policy]]\npartition = \"none\"\ncount = 0\n[[policy]]\ncount = 1\n"
	all := make([]string, len(names))
	for i, name := range names {
		local += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\n", i, name)
		all[i] = fmt.Sprintf("%d=%s", i, name)
	}
	local += "gpus = [0]\n" // the last one serves it
	for _, c := range []struct{ answers, id, job, claims string }{
		{"policy", "900081", "", all[0]},
		{"policy with none", "900082", " SLURM_JOB_PARTITION=none", ""},
		{"gpu", "900084", " SLURM_JOB_GPUS=0", all[last]},
		{"node", "900085", " SLURM_JOB_EXCLUSIVE=NODE", strings.Join(all, " ")},
	} {
		c.job = "SLURM_JOB_ID=" + c.id + c.job
		vm.WriteConfig(t, local)
		for _, program := range []string{"prolog", "epilog"} {
			got, said := opened(t, program, c.job)
			if len(got) > 0 {
				t.Errorf("%s where %s answers: %q\n%s", program, c.answers, got, said)
			}
			if got := vm.Claims(t, c.id); program == "prolog" && got != c.claims {
				t.Errorf("where %s answers, the job has claimed %q, wanted %q:\n%s", c.answers, got, c.claims, said)
			}
		}
		vm.Same(t, before)
	}
	// So that it is known what an RPC looks like: slurmctld is asked, and knows no such job, which is refused then.
	vm.WriteConfig(t, vm.AskScontrol)
	if got, said := opened(t, "prolog", "SLURM_JOB_ID=900083"); len(got) == 0 {
		t.Errorf("source scontrol asked nobody, and the prolog says\n%s", said)
	}
	opened(t, "epilog", "SLURM_JOB_ID=900083")
	vm.Same(t, before)
}

// ownName gives an HCA that came back the name of its number, as udev's rules would. Since
// 7.3 the kernel takes the lowest name that no other in the node's namespace has, which may
// be that of an HCA that a job has.
func ownName(t *testing.T, name string) {
	t.Helper()
	vm.Run(t, "has=$(ls /sys/bus/platform/devices/ibfake."+strings.TrimPrefix(name, "ibfake")+"/infiniband); [ $has = "+name+" ] || rdma dev set $has name "+name)
}

// A driver may be slower at boot than the first job.
func TestAnHCAThatComesAfterTheFirstLeaseIsOneForJobs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	names := vm.HCAs(t)
	last := len(names) - 1
	driver := "echo ibfake." + strings.TrimPrefix(names[last], "ibfake") + " >/sys/bus/platform/drivers/ibfake/"
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config); vm.Run(t, vm.ForgetTable) })
	wants := func(index int) {
		vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [%d]\n", index))
	}
	vm.Run(t, vm.ForgetTable+"; "+driver+"unbind")
	wants(0)
	vm.Must(t, "prolog", "SLURM_JOB_ID=900095")
	vm.Run(t, driver+"bind; udevadm settle")
	ownName(t, names[last])
	wants(last)
	vm.Must(t, "prolog", "SLURM_JOB_ID=900096")
	if got, want := vm.Claims(t, "900096"), fmt.Sprintf("%d=%s", last, names[last]); got != want {
		t.Errorf("the job has claimed %q, wanted %q", got, want)
	}
	for _, job := range []string{"900095", "900096"} {
		vm.Must(t, "epilog", "SLURM_JOB_ID="+job)
	}
	vm.Run(t, vm.GiveAddresses)
}

func TestAnHCAThatComesAfterASourceWasAskedShiftsNoNumber(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	names := vm.HCAs(t)
	driver := "echo ibfake." + strings.TrimPrefix(names[0], "ibfake") + " >/sys/bus/platform/drivers/ibfake/"
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config); vm.Run(t, vm.ForgetTable) })
	vm.Run(t, vm.ForgetTable+"; "+driver+"unbind")
	// It has one of the HCA's two GPUs, and so is told that it gets none.
	vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma=%s\"\ngpus = [0, 1]\n", names[1]))
	vm.Must(t, "prolog", "SLURM_JOB_ID=900097 SLURM_JOB_GPUS=0")
	first := strings.TrimSpace(vm.Jq(t, ".hcas[0].name"))
	vm.Run(t, driver+"bind; udevadm settle")
	ownName(t, names[0])
	vm.WriteConfig(t, "[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [0]\n")
	vm.Must(t, "prolog", "SLURM_JOB_ID=900098")
	if got, want := vm.Claims(t, "900098"), "0="+first; got != want || first == names[0] {
		t.Errorf("the job has claimed %q, wanted %q", got, want)
	}
	// The next number is another HCA's as before.
	vm.WriteConfig(t, "[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [1]\n")
	if out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900099"); code != 0 {
		t.Errorf("a later prolog: exit %d: %s", code, out)
	}
	if got, want := vm.Claims(t, "900098")+" "+vm.Claims(t, "900099"), "0="+first+" 1="+names[2]; got != want {
		t.Errorf("the jobs have claimed %q, wanted %q", got, want)
	}
	for _, job := range []string{"900097", "900098", "900099"} {
		vm.Must(t, "epilog", "SLURM_JOB_ID="+job)
	}
	vm.Run(t, vm.GiveAddresses)
}
