package parts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func TestSixteenJobsAtOnceHaveTheVFsOfTwoPFs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	boot(t, inParts(8, "type = \"vf\"\nvf = {vlan = 100, trust = false}\n", "type = \"vf\"\n"))
	program := vm.Repo() + "/bin/gresnet-prolog"
	vm.Run(t, program+" scan --gres-files && "+program+" scan --gres-conf >/tmp/nics.conf")
	config := strings.ReplaceAll(inParts(8, "type = \"vf\"\nvf = {vlan = 100, trust = false}\n", "type = \"vf\"\n"), "[\"gpu\"]", "[\"scontrol\"]\ntimeout = \"10m\"")
	vm.Slurm(t)
	vm.WriteConfig(t, config)
	vm.NoDeadline(t) // the kernel moves one RDMA device at a time
	vm.SlurmAnew(t, "--nics /tmp/nics.conf --conf AuthInfo=cred_expire=600")
	t.Cleanup(func() {
		vm.Run(t, "scancel -u alice")
		vm.Eventually(t, "the epilogs have run", vm.NoLease)
		vm.WriteConfig(t, vm.Config)
	})
	if lines := vm.Run(t, "cat /tmp/nics.conf"); strings.Count(lines, "Name=nic Type=vf File=") != 16 {
		t.Fatalf("gres.conf has\n%s", lines)
	}
	before := vm.Picture(t)
	var jobs []string
	for range 16 {
		jobs = append(jobs, vm.Submit(t, "alice", "--gres=nic:vf:1", `srun bash -c 'echo "has $GRESNET_HCAS" $(ls /dev/infiniband | wc -l); sleep 1000'`))
	}
	had := map[string]string{}
	for _, job := range jobs {
		var out []byte
		vm.Eventually(t, "the step of job "+job+" runs", func() (runs bool) {
			out, _ = os.ReadFile("/tmp/" + job + ".out")
			return strings.Contains(string(out), "has ")
		})
		_, has, _ := strings.Cut(strings.TrimSpace(string(out)), "has ")
		hca, devices, _ := strings.Cut(has, " ")
		if other, twice := had[hca]; twice || devices != "2" {
			t.Errorf("job %s has %q, and so has job %s", job, has, other)
		}
		had[hca] = job
	}
	claims := vm.Run(t, "jq -r '.claims[] | \"\\(.hca.pci)/vf\\(.hca.vf)\"' "+vm.NodeTable+" | sort")
	for _, pf := range []string{rocePF, ibPF} {
		for vf := range 8 {
			if !strings.Contains(claims, fmt.Sprintf("%s/vf%d\n", pf, vf)) {
				t.Errorf("no job has VF %d of %s:\n%s", vf, pf, claims)
			}
		}
	}
	if vlans := vm.Run(t, "ip link show "+roceLink); strings.Count(vlans, "vlan 100") != 8 {
		t.Errorf("not all VFs are in their VLAN:\n%s", vlans)
	}
	vm.Run(t, "scancel "+strings.Join(jobs, " "))
	for _, job := range jobs {
		vm.Ended(t, job)
	}
	vm.Same(t, before)
}
