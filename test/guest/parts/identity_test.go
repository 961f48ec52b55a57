package parts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const vfJob = "SLURM_JOB_ID=900200 SLURM_JOB_GPUS=0,1"

// listed splits both PFs, and has a site list one VF of each. The RoCE VF has a random MAC, as its
// PF was told none; the InfiniBand VF has GUIDs.
func listed(t *testing.T) (roce, ib string) {
	t.Helper()
	split(t, rocePF, 3)
	split(t, ibPF, 3)
	vm.Run(t, "ip link set "+ibLink+" vf 1 node_guid 02:00:00:00:00:00:00:07; ip link set "+ibLink+" vf 1 port_guid 02:00:00:00:00:00:00:08")
	roce, ib = vfOf(t, rocePF, 2), vfOf(t, ibPF, 1)
	rebind(t, ib)
	config := "[slurm]\nsource = [\"gpu\"]\n"
	for i, pci := range []string{roce, ib} {
		config += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"pci=%s\"\ngpus = [%d]\n", i, pci, i)
		vm.Run(t, fmt.Sprintf("i=$(ls /sys/bus/pci/devices/%s/net); ip link set $i up; ip addr add 10.20.%d.2/24 dev $i; ip route add 172.20.%d.0/24 via 10.20.%d.1 dev $i metric 77", pci, i, i, i))
	}
	vm.WriteConfig(t, config)
	t.Cleanup(func() {
		vm.ByHand(t, "epilog", vfJob)
		vm.WriteConfig(t, vm.Config)
		// Numbers of HCAs hold until the next boot.
		vm.Run(t, vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
	})
	vm.Run(t, vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
	return roce, ib
}

// inJob runs a command in a job's network namespace.
func inJob(t *testing.T, job, command string) string {
	t.Helper()
	return vm.Run(t, "nsenter --net=/run/gresnet/jobs/"+job+"/netns sh -ec "+vm.Quote(command))
}

func TestAVFIsReturnedWhateverMACItsJobGaveIt(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	listed(t)
	before := vm.Picture(t)
	for _, changed := range []bool{false, true} {
		vm.Must(t, "prolog", vfJob)
		links := inJob(t, "900200", "ls /sys/class/net || true; ip -br link")
		for _, want := range []string{"enp1s0v2", "ib"} {
			if !strings.Contains(links, want) {
				t.Errorf("the job has no %s:\n%s", want, links)
			}
		}
		if changed {
			inJob(t, "900200", "ip link set enp1s0v2 down; ip link set enp1s0v2 address 02:00:00:00:00:99 name other0")
		}
		vm.Must(t, "epilog", vfJob)
		vm.Same(t, before)
	}
}

func TestVFsAreNoHCAsOfASiteThatListsNone(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	scan := func(more string) string { return vm.Run(t, vm.Repo()+"/bin/gresnet scan"+more) }
	numbers := func() string {
		return strings.Join(regexp.MustCompile(`(?m)^nic \d+ +\S+ `).FindAllString(scan(""), -1), "")
	}
	before := numbers()
	split(t, rocePF, 3)
	split(t, ibPF, 2)
	if now := numbers(); now != before {
		t.Errorf("the HCAs were numbered\n%s\nand are numbered\n%s", before, now)
	}
	text := scan("")
	for _, want := range []string{"rocep1s0 is a PF with 3 of 8 VFs", "ibp2s0 is a PF with 2 of 8 VFs", " is VF 2 of rocep1s0", " is VF 1 of ibp2s0"} {
		if !strings.Contains(text, want) {
			t.Errorf("scan does not say %q:\n%s", want, text)
		}
	}
	vfs := strings.TrimSpace(vm.Run(t, vm.Repo()+`/bin/gresnet scan --json | jq -r '.hcas[] | select(.id.vf) | "\(.id.pci) \(.id.vf) \(.function) \(.guid) \(.gres)"'`))
	if want := "0000:01:00.0 0 0000:01:00.1 0000:0000:0000:0000 null"; !strings.HasPrefix(vfs, want) || strings.Count(vfs, "\n") != 4 {
		t.Errorf("the VFs in JSON are\n%s", vfs)
	}
	for _, port := range strings.Fields(vm.Run(t, vm.Repo()+`/bin/gresnet scan --json | jq -r '.hcas[] | select(.id.vf and .id.pci == "`+ibPF+`") | "\(.function)=\(.ports[0].interface)"'`)) {
		pci, name, _ := strings.Cut(port, "=")
		if own := strings.TrimSpace(vm.Run(t, "ls /sys/bus/pci/devices/"+pci+"/net")); own != name {
			t.Errorf("the interface of %s is %s, and scan says %s", pci, own, name)
		}
	}
	if toml := scan(" --toml"); strings.Count(toml, "# no job's: jobs get VFs only where") != 5 {
		t.Errorf("a site is proposed\n%s", toml)
	}
	// A program that knows no VFs can read the table.
	const job = "SLURM_JOB_ID=900201 SLURM_JOB_PARTITION=main SLURM_JOB_GPUS="
	vm.WriteConfig(t, "[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = 1\n")
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	vm.Must(t, "prolog", job)
	table := vm.Run(t, vm.ListTable)
	vm.Must(t, "epilog", job)
	if strings.Contains(table, `"vf"`) || !strings.Contains(table, "rocep1s0") {
		t.Errorf("the node table is\n%s", table)
	}
}

func TestVFsThatAreTakenAwayDuringAJobAreGoneAndOthersAreReturned(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	_, ib := listed(t)
	onNode := func() string {
		return vm.Run(t, "ip -br addr show; cat /sys/bus/pci/devices/"+ib+"/infiniband/*/node_guid")
	}
	vm.Must(t, "prolog", vfJob)
	vm.Run(t, "echo 0 >/sys/bus/pci/devices/"+rocePF+"/sriov_numvfs")
	out, code := vm.ByHand(t, "epilog", vfJob)
	for _, want := range []string{"enp1s0v2", "any more"} {
		if code != 2 || !strings.Contains(out, want) {
			t.Errorf("the epilog exits with %d and says, without %q:\n%s", code, want, out)
		}
	}
	if now := onNode(); !strings.Contains(now, "10.20.1.2/24") || !strings.Contains(now, "0200:0000:0000:0007") {
		t.Errorf("the other VF is not back:\n%s", now)
	}
	left := vm.Run(t, "ls /run/gresnet/jobs") + vm.Jq(t, ".claims[].quarantined")
	if strings.Count(left, "\n") != 1 || !strings.Contains(left, "it gets its settings when it is back") {
		t.Errorf("left are %s", left)
	}
	vm.Must(t, "epilog", vfJob) // it was said once
	// The PF has VFs again: of the same numbers, and so the same.
	vm.Run(t, "echo 3 >/sys/bus/pci/devices/"+rocePF+"/sriov_numvfs; udevadm settle; "+vm.Repo()+"/bin/gresnet close")
	vm.Must(t, "prolog", vfJob)
	vm.Must(t, "epilog", vfJob)
	if now := onNode(); !strings.Contains(now, "10.20.0.2/24") {
		t.Errorf("the VF that was away has not what it had:\n%s", now)
	}
	before := vm.Picture(t)
	vm.Must(t, "prolog", vfJob)
	vm.Must(t, "epilog", vfJob)
	vm.Same(t, before)
}
