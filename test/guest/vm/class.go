// Package vm is what the tests in test/guest share: the class that each test declares, the
// lanes that run them, and what they do on a node. The tests are compiled on the host and
// run as root in the test VM, see test/vm; anywhere else they are skipped.
package vm

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

// Class says what a test needs of the VM and which runs include it. A test's class is the
// union of one mode, one level and any number of shapes.
type Class uint16

// The RDMA netns modes of the kernel in which the test runs.
const (
	Shared    Class = 1 << iota // shared mode alone
	Exclusive                   // exclusive mode alone

	Smoke // `make test` runs it
	Short // `make test-vm` runs it, and CI
	Long  // `make test-long` alone runs it

	PCI        // needs HCAs and GPUs on PCI: runs in the VM of --pci alone
	VF         // needs HCAs with SR-IOV: runs in the VM of --vf alone
	IGB        // needs a NIC whose VFs carry packets: runs in the VM of --igb alone
	TwoNodes   // needs two nodes: runs in the VMs of --nodes 2 alone
	Managed    // needs systemd and network managers: runs in the VM of --systemd alone
	MLX5       // needs the kernel's own mlx5 driver: runs in the VM of --mlx5 alone
	OnMLX5     // runs once more in that VM
	TwoMLX5    // needs that driver on two nodes: runs in the VMs of --nodes 2 --mlx5 alone
	Many       // runs once more in a VM with 16 HCAs
	EverySlurm // depends on Slurm's version: `make test-matrix` runs it

	sameInBoth

	// Both stands for each of the two modes: the test runs once in each.
	Both = Shared | Exclusive
	// Either is for what no mode changes, such as a source or a line of plugstack.conf:
	// `make test-vm` and CI run the test in exclusive mode alone, the long tests in both.
	Either = Both | sameInBoth
)

const (
	levels = Smoke | Short | Long
	// places are shapes of VMs that run only the tests that ask for them.
	places = PCI | VF | IGB | TwoNodes | Managed | MLX5 | TwoMLX5
)

var classNames = map[string]Class{
	"Shared": Shared, "Exclusive": Exclusive, "Both": Both, "Either": Either,
	"Smoke": Smoke, "Short": Short, "Long": Long,
	"PCI": PCI, "VF": VF, "IGB": IGB, "TwoNodes": TwoNodes, "Managed": Managed, "MLX5": MLX5, "OnMLX5": OnMLX5, "TwoMLX5": TwoMLX5, "Many": Many, "EverySlurm": EverySlurm,
}

// check returns why a class is none.
func (c Class) check() error {
	if c&Both == 0 {
		return fmt.Errorf("it names no mode. Hint: vm.Shared, vm.Exclusive or vm.Both")
	}
	if level := c & levels; level != Smoke && level != Short && level != Long {
		return fmt.Errorf("it names no level, or several. Hint: vm.Smoke, vm.Short or vm.Long")
	}
	if bits.OnesCount16(uint16(c&places)) > 1 {
		return fmt.Errorf("no VM has all of %s", c&places)
	}
	return nil
}

// Needs declares a test's class, and is the first statement of each test in test/guest. It
// skips the test outside of the VM, and in a VM of another mode or shape.
func Needs(t *testing.T, classes ...Class) {
	t.Helper()
	var class Class
	for _, c := range classes {
		class |= c
	}
	if err := class.check(); err != nil {
		t.Fatalf("the test's class is wrong: %v", err)
	}
	have := os.Getenv("GRESNET_VM")
	if have == "" {
		netnstest.Skip(t, "needs the test VM: run it with `make test-vm`")
	}
	if shape := class & places; shapeNames[shape] != have && (class&OnMLX5 == 0 || have != shapeNames[MLX5]) {
		netnstest.Skip(t, "needs another VM: test/vm/vm run "+strings.Join(shapeArguments(shape), " "))
	}
	if mode := Mode(t); class&Both != Both && modeNames[class&Both] != mode {
		netnstest.Skip(t, "does not run in "+mode+" mode")
	}
}

// shapeNames are the values of GRESNET_VM that test/vm/guest-init sets.
var shapeNames = map[Class]string{0: "node", PCI: "pci", VF: "vf", IGB: "igb", TwoNodes: "nodes", Managed: "systemd", MLX5: "mlx5", TwoMLX5: "mlx5-nodes"}

var modeNames = map[Class]string{Shared: "shared", Exclusive: "exclusive"}

// String names the parts of a class.
func (c Class) String() string {
	var names []string
	for _, name := range []string{"Shared", "Exclusive", "Smoke", "Short", "Long", "PCI", "VF", "IGB", "TwoNodes", "Managed", "MLX5", "OnMLX5", "TwoMLX5", "Many", "EverySlurm"} {
		if c&classNames[name] != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
