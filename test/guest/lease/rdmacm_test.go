package lease

import (
	"strconv"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// In exclusive mode RDMA-CM forgets a device that is moved. Sites' tools remove the folder
// in which they have set what it has.
func TestWhatRDMACMHasForAnHCAIsTheJobsAndIsReturned(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	const folder = "/sys/kernel/config/rdma_cm/"
	names := vm.HCAs(t)
	both := []string{names[0], names[len(names)-1]} // InfiniBand, RoCE
	set := func(name, mode string, tos int) {
		port := folder + name + "/ports/1/"
		vm.Run(t, "mkdir "+folder+name+"; echo "+vm.Quote(mode)+" >"+port+"default_roce_mode; echo "+strconv.Itoa(tos)+" >"+port+"default_roce_tos; rmdir "+folder+name)
	}
	get := func() string {
		var out strings.Builder
		for _, name := range both {
			out.WriteString(vm.Run(t, "mkdir "+folder+name+"; grep . "+folder+name+"/ports/1/*; rmdir "+folder+name))
		}
		return out.String()
	}
	was := get()
	set(both[0], "IB/RoCE v1", 26)
	set(both[1], "IB/RoCE v1", 106)
	t.Cleanup(func() {
		set(both[0], "IB/RoCE v1", 0)
		set(both[1], "RoCE v2", 0)
		if now := get(); now != was {
			t.Errorf("they have\n%s\nand had\n%s", now, was)
		}
	})
	has := get()
	if strings.Count(has, "IB/RoCE v1") != 2 || !strings.Contains(has, "default_roce_tos:106") {
		t.Fatalf("they have\n%s", has)
	}
	before := vm.Picture(t)
	for _, made := range []bool{false, true} {
		vm.Must(t, "prolog", vm.InvariantJob)
		if inJob := get(); inJob != has {
			t.Errorf("in the job they have\n%s\nand had\n%s", inJob, has)
		}
		if made { // what somebody changes meanwhile
			set(both[1], "RoCE v2", 7)
		}
		vm.Must(t, "epilog", vm.InvariantJob)
		if now := get(); now != has && (vm.Mode(t) == "exclusive" || !made) {
			t.Errorf("on the node they have\n%s\nand had\n%s", now, has)
		}
	}
	if left := vm.Run(t, "ls "+folder); left != "" {
		t.Errorf("folders are left: %s", left)
	}
	vm.Same(t, before)

	// Who is killed leaves no folder.
	if vm.Mode(t) == "exclusive" {
		out, _ := vm.Traced(t, "prolog", vm.InvariantJob, "-P "+folder+both[1]+" -e inject=unlinkat:signal=KILL:when=1")
		if left := vm.Run(t, "ls "+folder); left != both[1]+"\n" {
			t.Errorf("the killed prolog left %q, wanted the folder of %s: %s", left, both[1], out)
		}
		vm.Must(t, "epilog", vm.InvariantJob)
		vm.Same(t, before)
	}

	// An administrator's own folder stays.
	vm.Run(t, "mkdir "+folder+both[1])
	t.Cleanup(func() { vm.Run(t, "rmdir "+folder+both[1]) })
	set2 := folder + both[1] + "/ports/1/default_roce_tos"
	vm.Run(t, "echo 99 >"+set2)
	before = vm.Picture(t)
	vm.Must(t, "prolog", vm.InvariantJob)
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Same(t, before)
}
