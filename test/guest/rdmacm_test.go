package guest

import (
	"strconv"
	"strings"
	"testing"
)

// In exclusive mode RDMA-CM forgets a device that is moved. Sites' tools remove the folder
// in which they have set what it has.
func TestWhatRDMACMHasForAnHCAIsTheJobsAndComesHome(t *testing.T) {
	anHCAOfEachKind(t)
	const folder = "/sys/kernel/config/rdma_cm/"
	names := hcas(t)
	both := []string{names[0], names[len(names)-1]} // InfiniBand, RoCE
	set := func(name, mode string, tos int) {
		port := folder + name + "/ports/1/"
		run(t, "mkdir "+folder+name+"; echo "+quote(mode)+" >"+port+"default_roce_mode; echo "+strconv.Itoa(tos)+" >"+port+"default_roce_tos; rmdir "+folder+name)
	}
	get := func() string {
		var out strings.Builder
		for _, name := range both {
			out.WriteString(run(t, "mkdir "+folder+name+"; grep . "+folder+name+"/ports/1/*; rmdir "+folder+name))
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
	before := picture(t)
	for _, made := range []bool{false, true} {
		must(t, "prolog", lawJob)
		if inJob := get(); inJob != has {
			t.Errorf("in the job they have\n%s\nand had\n%s", inJob, has)
		}
		if made { // what somebody changes meanwhile
			set(both[1], "RoCE v2", 7)
		}
		must(t, "epilog", lawJob)
		if now := get(); now != has && (mode(t) == "exclusive" || !made) {
			t.Errorf("at home they have\n%s\nand had\n%s", now, has)
		}
	}
	if left := run(t, "ls "+folder); left != "" {
		t.Errorf("folders are left: %s", left)
	}
	same(t, before)

	// Who is killed leaves no folder.
	if mode(t) == "exclusive" {
		out, _ := traced(t, "prolog", lawJob, "-P "+folder+both[1]+" -e inject=unlinkat:signal=KILL:when=1")
		if left := run(t, "ls "+folder); left != both[1]+"\n" {
			t.Errorf("the killed prolog left %q, wanted the folder of %s: %s", left, both[1], out)
		}
		must(t, "epilog", lawJob)
		same(t, before)
	}

	// An administrator's own folder stays.
	run(t, "mkdir "+folder+both[1])
	t.Cleanup(func() { run(t, "rmdir "+folder+both[1]) })
	set2 := folder + both[1] + "/ports/1/default_roce_tos"
	run(t, "echo 99 >"+set2)
	before = picture(t)
	must(t, "prolog", lawJob)
	must(t, "epilog", lawJob)
	same(t, before)
}
