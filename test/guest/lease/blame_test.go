package lease

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

// blame is what is wrong, as docs/trouble.md has it, and whose fault it is.
type blame struct {
	fault  string
	config string
	said   string // what a scontrol, or a program of the site's, has; %s in config is its path
	job    string // more of the prolog's environment
	node   bool   // it is the node's fault
	want   string // a part of the line that says so
}

// shows returns a scontrol that says what the job has, as people read it.
func shows(detail string) string {
	return "#!/bin/sh\ncat <<'E'\nJobId=900110 JobName=x\n   Socks/Node=*\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=" + detail + "\n   MinCPUsNode=1\nE\n"
}

// listed are [[hca]] tables, numbered.
func listed(hcas ...string) (text string) {
	for i, h := range hcas {
		text += fmt.Sprintf("[[hca]]\nindex = %d\n%s\n", i, h)
	}
	return text
}

func TestWhatIsTheJobsFaultIsRefusedWhatIsTheNodesFailsAndNeitherClaims(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	before := vm.Picture(t)
	names := vm.ByIndex(t)
	few, all := len(names)-1, len(names) // one HCA is quarantined, another one held
	last := names[len(names)-1]
	guid := strings.TrimSpace(vm.Run(t, "cat /sys/class/infiniband/"+last+"/node_guid"))
	vm.Run(t, "install -d -m 755 /var/lib/site")
	defer vm.Run(t, "rm -r /var/lib/site")

	vm.WriteConfig(t, "[slurm]\nsource = [\"policy\"]\n[health]\nport = \"quarantine\"\n[[policy]]\npartition = \"first\"\nindices = [0]\n[[policy]]\nindices = [1]\n")
	vm.Must(t, "prolog", vm.RunningJob+" SLURM_JOB_PARTITION=first")
	vm.Run(t, "touch /run/gresnet/jobs/900100/extern")
	end := standin.Start(t, exec.Command("bash", "-c", `exec -a "slurmstepd: [900100.extern]" cat /proc/self/comm -`))
	vm.Must(t, "prolog", vm.EndedJob)
	port(t, "slow", names[1])
	if out, code := vm.ByHand(t, "epilog", vm.EndedJob); code != 2 {
		t.Fatalf("epilog: exit %d: %s", code, out)
	}
	held := vm.Picture(t)
	table := vm.Run(t, vm.ListTable)
	leases := vm.Run(t, "ls -A /run/gresnet/jobs")

	const policy, scontrol = "source = [\"policy\"]\n", "source = [\"scontrol\"]\nscontrol = \"%s\"\n"
	const program = "source = [\"program\"]\nprogram = \"%s\"\n"
	types := listed("match = \"rdma="+names[0]+"\"\ntype = \"edr\"", "match = \"rdma="+last+"\"\ntype = \"hdr\"")
	for _, c := range []blame{
		{fault: "an index that the node does not have, by policy", config: policy + "[[policy]]\nindices = [99]\n",
			want: "nic:1(IDX:99), which source policy says the job has: this node has no nic 99; it has nic 0-"},
		{fault: "a count beyond what the node has, by program", config: program, said: "#!/bin/sh\necho nic:99\n",
			want: fmt.Sprintf("nic:99, which source program says the job has: this node has %d; it has nic 0-", all)},
		{fault: "a type that the mapping does not have", config: policy + "[[policy]]\ntype = \"ndr\"\ncount = 1\n" + types,
			want: "nic:ndr:1, which source policy says the job has: this node has no such GRES; it has nic 0 (edr), nic 1 (hdr)"},
		{fault: "a GRES that no HCA of this node is", config: "gres = [\"nic\", \"hca\"]\n" + policy + "[[policy]]\ngres = \"hca\"\ncount = 1\n",
			want: "hca:1, which source policy says the job has: this node has no such GRES; it has nic 0-"},
		{fault: "no policy fits", config: policy + "[[policy]]\npartition = \"other\"\ncount = 1\n", job: "SLURM_JOB_PARTITION=all",
			want: "job 900110 (partition all): no [[policy]] fits it"},
		{fault: "an HCA that another job holds, by policy", config: policy + "[[policy]]\nindices = [0]\n",
			want: names[0] + " (nic 0): job 900100 has it since "},
		{fault: "HCAs that another job holds, by policy", config: policy + fmt.Sprintf("[[policy]]\ncount = %d\n", all),
			want: fmt.Sprintf("nic:%d, which source policy says the job has: %d of %d are free here; %s (nic 0): job 900100 has it since ", all, all-2, all, names[0])},
		{fault: "an HCA that another job holds that runs, by gpu", config: "source = [\"gpu\"]\n" + listed("match = \"rdma="+names[0]+"\"\ngpus = [0]"), job: "SLURM_JOB_GPUS=0",
			want: names[0] + " (nic 0): job 900100 has it since "},
		{fault: "a path that imitates what scontrol prints", config: scontrol, said: shows("nic:1(IDX:2)\n   MinCPUsNode=1\n   Socks/Node=*\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:2(IDX:2-3)"),
			want: "and Slurm says one: the job's name, comment or a path imitates it"},
		{fault: "an answer without this node", config: scontrol, said: strings.ReplaceAll(shows("nic:1(IDX:0)"), "Nodes=node1", "Nodes=node2"),
			want: "it has node2 and not node1: somebody has changed, requeued or canceled it since its prolog began"},
		{fault: "an answer of scontrol's that is too long", config: scontrol, said: "#!/bin/sh\nexec yes JobId=900110\n",
			want: "it printed too much"},
		{fault: "a scontrol that does not answer in time", config: "timeout = \"1s\"\n" + scontrol, said: "#!/bin/sh\nexec sleep 1000\n",
			want: "slurmctld does not answer: after "},
		{fault: "a slurmctld that does not answer", config: "timeout = \"1s\"\n" + scontrol,
			said: "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2\nexit 1\n",
			want: "slurmctld does not answer: after "},

		{fault: "an HCA that another job holds, and Slurm has counted", config: scontrol, said: shows("nic:1(IDX:0)"),
			want: names[0] + " (nic 0): job 900100 has it since "},
		{fault: "an HCA that is quarantined", config: policy + "[[policy]]\nindices = [1]\n",
			want: names[1] + " (nic 1): it is quarantined since job 900101: "},
		{fault: "too few HCAs, if a quarantined one would be enough", config: policy + fmt.Sprintf("[[policy]]\ncount = %d\n", few),
			want: fmt.Sprintf("%d of %d are free here; ", all-2, all)},
		{fault: "a type for which Slurm and the mapping have different indices", config: scontrol + types, said: shows("nic:hdr:1(IDX:0)"), node: true,
			want: "Slurm says that nic 0 is of type hdr, the configuration says edr"},
		{fault: "an [[hca]] that no HCA fits", config: policy + "[[policy]]\nindices = [0]\n" + listed(`match = "rdma=mlx5_7"`), node: true,
			want: "(rdma=mlx5_7): the node has no such HCA; it has " + names[0]},
		{fault: "two [[hca]] that mean one HCA", config: policy + "[[policy]]\ncount = 1\n" + listed(`match = "rdma=`+last+`"`, `match = "guid=`+guid+`"`), node: true,
			want: "map nic 1 (guid=" + guid + "): it is " + last},
		{fault: "an answer that is cut off", config: scontrol, said: "#!/bin/sh\nprintf 'JobId=900110 JobName=x'\n",
			want: "its output is cut off"},
		{fault: "an answer in an unknown form", config: scontrol, said: "#!/bin/sh\necho '<job id=900110>'\n",
			want: "unknown form: it begins with "},
		{fault: "GRES in an unknown form", config: scontrol, said: shows("nic:1[IDX:2]"),
			want: "unknown form; known are "},
		{fault: "a scontrol that fails", config: scontrol, said: "#!/bin/sh\necho 'slurm_load_jobs error: Access denied' >&2\nexit 1\n",
			want: `exit status 1: it says "slurm_load_jobs error: Access denied"`},
		{fault: "a scontrol that is not there", config: strings.Replace(scontrol, "%s", "/no/such/scontrol", 1), node: true,
			want: "find scontrol: file does not exist as a program: /no/such/scontrol"},
		{fault: "a program that others than root may write", config: strings.Replace(program, "%s", "/tmp/program", 1), said: "#!/bin/sh\necho nic:1\n", node: true,
			want: "others than root may write it"},
		{fault: "a program that says half of it", config: program, said: "#!/bin/sh\nprintf nic:1\n", node: true,
			want: "it is cut off"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			path := "/var/lib/site/says"
			for _, p := range []string{path, "/tmp/program"} {
				if err := os.WriteFile(p, []byte(c.said), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			vm.WriteConfig(t, fmt.Sprintf("[deadline]\nprolog = %q\n[slurm]\n", vm.Slow(10*time.Second))+strings.NewReplacer("%s", path, "%%", "%").Replace(c.config))
			out, code := vm.ByHand(t, "prolog", vm.FaultyJob+" "+c.job)
			if c.node {
				vm.NodesFault(t, out, code, c.want)
			} else {
				jobsFault(t, out, code, c.want)
				vm.Must(t, "epilog", vm.FaultyJob)
			}
			if now := vm.Run(t, vm.ListTable); now != table {
				t.Errorf("the node table was\n%s\nand is\n%s", table, now)
			}
			if now := vm.Run(t, "ls -A /run/gresnet/jobs"); now != leases {
				t.Errorf("the leases were of jobs\n%sand are of\n%s", leases, now)
			}
		})
	}
	vm.Same(t, held)

	end()
	vm.Must(t, "epilog", vm.RunningJob)
	vm.Run(t, "echo -1 >/sys/module/ibfake/parameters/slow")
	vm.Must(t, "epilog", vm.EndedJob)
	vm.Same(t, before)
}

// jobsFault holds a prolog to succeed without a word, and to leave a lease that says
// why it is none.
func jobsFault(t *testing.T, out string, code int, want string) {
	t.Helper()
	if code != 0 || out != "" {
		t.Errorf("exit %d, wanted 0 without a word:\n%s", code, out)
	}
	env, _ := vm.Try("cat /run/gresnet/jobs/900110/env")
	refused := regexp.MustCompile(`\nGRESNET_REFUSED=(.*)\n$`).FindStringSubmatch(env)
	if refused == nil || !strings.Contains(refused[1], want) || strings.Contains(env, "GRESNET_HCAS") {
		t.Errorf("wanted a lease that is refused with %q:\n%s", want, env)
	}
}
