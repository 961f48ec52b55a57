package parts

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// wholeForAPartition has a site in exclusive mode give an InfiniBand HCA as a whole, with an interface
// for a partition besides. link is the HCA's interface.
func wholeForAPartition(t *testing.T, more string) (hca, link string) {
	t.Helper()
	hca, link = forPartitions(t, "")
	vm.WriteConfig(t, asAWhole(hca, more))
	return hca, link
}

// asAWhole is such a site's gresnet.toml. more is for [[hca]], and tables after it.
func asAWhole(hca, more string) string {
	return strings.NewReplacer("count = 8", "count = 1", "[0, 1, 2, 3, 4, 5, 6, 7]", "[0]").Replace(partitions(hca, more))
}

func TestAJobHasAnInterfaceForItsPartitionBesideThatOfTheHCAAndTheNodeComesBackExactly(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	hca, link := wholeForAPartition(t, "node = \"take\"\n"+physics)
	// The node's own child has the job's P_Key, too.
	vm.Run(t, "ip link add link "+link+" name own0 type ipoib pkey 0x8002; ip link set own0 up")
	t.Cleanup(func() { vm.Run(t, "ip link del own0") })
	before := vm.Picture(t)
	in := "nsenter --net=" + slotLease(0) + "/netns "
	for _, c := range []struct{ keep, child string }{
		{"", link + ".8002"},
		{"interface = \"keep\"\n", link},
	} {
		vm.WriteConfig(t, asAWhole(hca, c.keep+"node = \"take\"\n"+physics))
		vm.Must(t, "prolog", inAccount("physics", 0))
		links := vm.Run(t, in+"ip -d link show "+c.child+"; "+in+"ip -br addr")
		if !strings.Contains(links, "pkey 0x8002 ") || !strings.Contains(links, "10.128.0.2/16") || c.keep == "" && !strings.Contains(links, "\n"+link+" ") {
			t.Errorf("the job has\n%s", links)
		}
		if devices := vm.Run(t, in+"rdma dev"); !strings.Contains(devices, hca+":") {
			t.Errorf("the job has the RDMA devices\n%s", devices)
		}
		for name, want := range map[string]string{
			"GRESNET_HCAS": hca, "GRESNET_INTERFACES": c.child, "GRESNET_PKEY": "0x8002",
			"NCCL_IB_PKEY": "2", "UCX_IB_PKEY": "0x0002", "OMPI_MCA_btl_openib_pkey": "0x0002",
		} {
			if got := exported(t, 0, name); got != want {
				t.Errorf("the job has %s=%s, want %s", name, got, want)
			}
		}
		vm.Must(t, "epilog", slotJob(0))
		vm.Same(t, before)
	}
	program := vm.Repo() + "/bin/gresnet "
	for command, want := range map[string]string{
		"scan":              "P_Key 0x8001: nic ",
		"plan --job 900300": link + " (P_Key 0x8002)",
	} {
		if out := vm.Run(t, inAccount("physics", 0)+" "+program+command); !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", command, want, out)
		}
	}
	again := vm.Run(t, program+"scan --toml")
	vm.WriteConfig(t, again)
	if twice := vm.Run(t, program+"scan --toml"); twice != again || !strings.Contains(again, "count = 1") {
		t.Errorf("scan --toml said\n%s\nand by that\n%s", again, twice)
	}
}

func TestWhateverAJobDoesToItsInterfaceForAPartitionTheNodeComesBackExactly(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	_, link := wholeForAPartition(t, "")
	before := vm.Picture(t)
	in := "nsenter --net=" + slotLease(0) + "/netns "
	child := link + ".8001"
	for _, action := range []string{
		in + "ip link del " + child,
		in + "ip link set " + child + " down; " + in + "ip link set " + child + " name mine0",
		in + "ip link set " + child + " netns 1",
		in + "ip link set " + child + " name mine1 netns 1; ip link set mine1 up",
		"umount " + slotLease(0) + "/netns",
	} {
		vm.Must(t, "prolog", slotJob(0))
		vm.Run(t, action)
		vm.Must(t, "epilog", slotJob(0))
		vm.Same(t, before)
		if t.Failed() {
			t.Fatalf("after %s", action)
		}
	}
}

func TestAKillAnywhereLosesNothingOfAnHCAForAPartition(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	wholeForAPartition(t, physics)
	before := vm.Picture(t)
	kills := vm.KillAnywhere(t, inAccount("physics", 0), func() bool { vm.Same(t, before); return !t.Failed() })
	t.Logf("%d kills", kills)
}

func TestAPartitionThatAWholeHCAIsNotInIsFoundByCheckAndRefusedBeforeAnythingChanges(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	hca, _ := wholeForAPartition(t, "")
	for _, c := range []struct {
		config, check, want string
		code                int
	}{
		{strings.ReplaceAll(asAWhole(hca, ""), "0x8001", "0x8055"), hca + " port 1 has no P_Key 0x8055; it has 0xffff, 0x8001", hca + " port 1 has no P_Key 0x8055", 1},
		// Users choose their account: this must not drain the node.
		{asAWhole(hca, strings.ReplaceAll(physics, "0x0002", "0x8055")), "policy 1 gives jobs P_Key 0x8055, which " + hca + " port 1 does not have",
			"pkey of the site's configuration: " + hca + " port 1 has no P_Key 0x8055", 0},
	} {
		vm.WriteConfig(t, c.config)
		refuses(t, c.check, c.want, c.code)
	}
}
