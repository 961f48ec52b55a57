package parts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// ownAddress returns a site whose jobs have VFs with addresses of their own.
func ownAddress(t *testing.T) string {
	t.Helper()
	return inParts(2, "gpus = [0, 1]\nvf = {address = \"job\", vlan = 7}\n", "gpus = [2, 3]\nvf = {address = \"job\"}\n") + theOthers(t)
}

// theOthers lists the HCAs that are no PFs: with all HCAs in tables, /dev/infiniband is closed.
func theOthers(t *testing.T) (tables string) {
	t.Helper()
	for n, name := range vm.WithoutPCI(t) {
		tables += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\n", 20+n, name)
	}
	return tables
}

// vfAddresses returns the MAC that the RoCE PF has on record of VF 1, and the GUIDs of the InfiniBand PF's.
func vfAddresses(t *testing.T) (mac, guids string) {
	t.Helper()
	mac = regexp.MustCompile(`link/ether (\S+)`).FindStringSubmatch(ofVF(t, 1))[1]
	guids = regexp.MustCompile(`vf 1 .*(NODE_GUID \S+, PORT_GUID \S+)`).FindStringSubmatch(vm.Run(t, "ip link show "+ibLink))[1]
	return mac, guids
}

// dressVFs gives the interfaces of the VFs settings of the node's own, and one of them another MAC.
func dressVFs(t *testing.T) {
	t.Helper()
	vm.Run(t, `n=0; for i in `+roceLink+`v1 $(ls /sys/bus/pci/devices/`+ibPF+`/virtfn1/net); do
		ip link set $i mtu 2044 up; ip addr add 10.20.$((n += 1)).2/24 dev $i; ip addr add fd00:$n::2/64 dev $i nodad
		ip route add 172.20.$n.0/24 via 10.20.$n.1 dev $i metric 77
		sysctl -qw net.ipv4.conf.$i.arp_ignore=1
		while ip -6 addr show dev $i | grep -q tentative; do sleep 0.1; done
	done; ip link set `+roceLink+`v1 txqueuelen 777 alias spare`)
}

func TestAJobsVFsHaveAddressesOfItsOwnAndTheNodeGetsTheirsBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	before := vm.Picture(t)
	mac, guids := vfAddresses(t)
	seen := map[string]bool{mac: true, guids: true}
	for _, id := range []string{"900206", "900207"} {
		job := "SLURM_JOB_ID=" + id + " SLURM_JOB_GPUS=1,3"
		vm.Must(t, "prolog", job)
		jobs, ofIB := vfAddresses(t)
		if seen[jobs] || seen[ofIB] {
			t.Errorf("job %s has %s, %s, which others had", id, jobs, ofIB)
		}
		seen[jobs], seen[ofIB] = true, true
		links := inJob(t, id, "ip -br link; ip -br addr")
		for _, want := range []string{roceLink + "v1", jobs, "10.20.1.2/24", "10.20.2.2/24", "fd00:1::2/64"} {
			if !strings.Contains(links, want) {
				t.Errorf("job %s has no %s:\n%s", id, want, links)
			}
		}
		if strings.Contains(links, mac) {
			t.Errorf("job %s has the VF's own MAC %s:\n%s", id, mac, links)
		}
		if ll := linkLocalOf(jobs); strings.Count(links, " fe80:") != 1 || !strings.Contains(links, ll) {
			t.Errorf("job %s has another link-local address than its MAC's, %s:\n%s", id, ll, links)
		}
		vm.Must(t, "epilog", job)
		vm.SameInAnyOrder(t, before)
	}
}

// linkLocalOf returns the end of the IPv6 link-local address of a MAC.
func linkLocalOf(mac string) string {
	part := strings.Split(mac, ":")
	return strings.TrimLeft(part[2], "0") + "ff:fe" + part[3] + ":" + strings.TrimLeft(part[4]+part[5], "0")
}

func TestAKillAnywhereLosesNothingOfVFsWithAddressesOfTheJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	const job = "SLURM_JOB_ID=900208 SLURM_JOB_GPUS=1,3"
	before := vm.Picture(t)
	kills := vm.KillAnywhere(t, job, func() bool { vm.SameInAnyOrder(t, before); return !t.Failed() })
	t.Logf("%d kills", kills)
}

// Whoever binds a VF again can be killed before the driver has the VF again.
func TestAVFThatAKillLeftWithoutADriverComesHome(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	const job = "SLURM_JOB_ID=900209 SLURM_JOB_GPUS=1,3"
	before := vm.Picture(t)
	for _, pf := range []string{rocePF, ibPF} {
		vm.Must(t, "prolog", job)
		vf := vfOf(t, pf, 1)
		vm.Run(t, "echo "+vf+" >/sys/bus/pci/devices/"+vf+"/driver/unbind")
		vm.Must(t, "epilog", job)
		vm.SameInAnyOrder(t, before)
	}
}

// Nothing has a note of the move of an interface yet when its VF was bound again, and has another index.
func TestAVFThatIsBoundAgainAndNotMovedComesHome(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	const job = "SLURM_JOB_ID=900211 SLURM_JOB_GPUS=1,3"
	before := vm.Picture(t)
	vm.Must(t, "prolog", job)
	last := vm.Atoi(vm.Run(t, `grep -n '"rebind"' /run/gresnet/jobs/900211/journal | tail -n 1`))
	vm.Must(t, "epilog", job)
	vm.KillAt(t, "prolog", job, vm.Before(last+1))
	vm.Must(t, "epilog", job)
	vm.SameInAnyOrder(t, before)
}

func TestAVFWhoseAddressOrChildWouldBeLostIsRefusedToTheJob(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	vf := strings.TrimSpace(vm.Run(t, "ls /sys/bus/pci/devices/"+vfOf(t, rocePF, 1)+"/infiniband"))
	refused := func(gpu, want string) {
		t.Helper()
		job := "SLURM_JOB_ID=900210 SLURM_JOB_GPUS=" + gpu
		vm.ByHand(t, "prolog", job)
		if env := vm.Run(t, "cat /run/gresnet/jobs/900210/env"); !strings.Contains(env, "\nGRESNET_REFUSED=") || !strings.Contains(env, want) {
			t.Errorf("the lease does not say %q:\n%s", want, env)
		}
		vm.Must(t, "epilog", job)
	}
	for _, c := range []struct{ config, want string }{
		{strings.Replace(ownAddress(t), "vf = {address", "interface = \"keep\"\nvf = {address", 1), "the interface of " + vf + " stays on the node"},
		{strings.Replace(ownAddress(t), theOthers(t), "", 1), "users could open the new device nodes of " + vf},
	} {
		vm.WriteConfig(t, c.config)
		vm.Run(t, "chmod 666 /dev/infiniband/uverbs0; "+vm.Repo()+"/bin/gresnet close") // one that users need opens the folder
		if !vm.IsExclusive(t) || strings.Contains(c.want, "stays") {
			refused("1", c.want)
		}
	}
	vm.WriteConfig(t, ownAddress(t))
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	vm.Run(t, "ip link add link "+roceLink+"v1 name v1.5 type vlan id 5")
	before := vm.Picture(t)
	refused("1", "v1.5 stands on "+roceLink+"v1")
	vm.Same(t, before)
	vm.Run(t, "ip link del v1.5")
	mac, _ := vfAddresses(t)
	vm.Run(t, "ip link set "+roceLink+" vf 1 mac 02:00:00:00:00:77")
	refused("1", "gave it MAC "+mac+", and the PF was told 02:00:00:00:00:77")
	vm.Run(t, "ip link set "+roceLink+" vf 1 mac "+mac)
	vm.Run(t, "ip link set "+ibLink+" vf 1 node_guid 00:00:00:00:00:00:00:00; ip link set "+ibLink+" vf 1 port_guid 00:00:00:00:00:00:00:00")
	rebind(t, vfOf(t, ibPF, 1))
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	refused("3", "its PF was never told an address")
}

// A VF that its driver has let go of, and was not offered since, is not lost: the next epilog offers it.
func TestAVFThatItsDriverWasNotOfferedAgainIsNotLost(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	const job = "SLURM_JOB_ID=900212 SLURM_JOB_GPUS=1"
	before := vm.Picture(t)
	vm.Must(t, "prolog", job)
	vf := vfOf(t, rocePF, 1)
	vm.Run(t, "echo "+vf+" >/sys/bus/pci/devices/"+vf+"/driver/unbind")
	const probe = "/sys/bus/pci/drivers_probe"
	vm.Run(t, "mount --bind "+probe+" "+probe+" && mount -o remount,ro,bind "+probe)
	out, code := vm.ByHand(t, "epilog", job)
	vm.Run(t, "umount "+probe)
	if code != 2 || !strings.Contains(out, "read-only file system") || strings.Contains(out, "lost during the job") {
		t.Errorf("exit status %d:\n%s", code, out)
	}
	if vm.Claims(t, "900212") == "" {
		t.Error("the claim of the VF is gone")
	}
	vm.Must(t, "epilog", job)
	vm.SameInAnyOrder(t, before)
}

// Who may give devices names in the job's namespace can give each of two VFs the other's.
func TestVFsOfAJobThatSwappedTheirNamesComeHomeUnderTheirOwn(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	const job = "SLURM_JOB_ID=900213 SLURM_JOB_GPUS=1,3"
	before := vm.Picture(t)
	name := func(pf string) string {
		return strings.TrimSpace(vm.Run(t, "ls /sys/bus/pci/devices/"+vfOf(t, pf, 1)+"/infiniband"))
	}
	roce, ib := name(rocePF), name(ibPF)
	vm.Must(t, "prolog", job)
	swap := "rdma dev set " + roce + " name other; rdma dev set " + ib + " name " + roce + "; rdma dev set other name " + ib
	if vm.IsExclusive(t) {
		inJob(t, "900213", swap)
	} else {
		vm.Run(t, swap)
	}
	vm.Must(t, "epilog", job)
	vm.SameInAnyOrder(t, before)
}

// What brings interfaces up can do so with one that a killed epilog has not given its index again.
func TestAnInterfaceThatIsUpWhenItsVFIsBoundAgainHasItsIndex(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, ownAddress(t))
	dressVFs(t)
	const job = "SLURM_JOB_ID=900214 SLURM_JOB_GPUS=1"
	before := vm.Picture(t)
	mac, _ := vfAddresses(t)
	vm.Must(t, "prolog", job)
	vm.Run(t, "ip link set "+roceLink+" vf 1 mac "+mac)
	vf := vfOf(t, rocePF, 1)
	rebind(t, vf)
	vm.Eventually(t, "the interface of "+vf, func() bool {
		_, err := vm.Try("ip link set $(ls /sys/bus/pci/devices/" + vf + "/net) up")
		return err == nil
	})
	vm.Must(t, "epilog", job)
	vm.SameInAnyOrder(t, before)
}
