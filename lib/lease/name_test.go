package lease

import "testing"

// udev does that to an IPoIB interface that the kernel has made again, at any time.
func TestAnInterfaceWhoseNameUdevHasMadeAnAlternativeOneHasItsNameInTheJob(t *testing.T) {
	node, state := testBed(t)
	before := testPicture(node)
	cmd := whole.command(node, state, "prolog", never)
	cmd.Env = append(cmd.Env, "GRESNET_BED_THEN=ip link set hca1 down; ip link set hca1 name made0; ip link property add dev made0 altname hca1; ip link set made0 up")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the prolog: %v: %s", err, out)
	}
	if err := lookInLease(state, "ip -o link show dev hca1 | grep ' hca1[:@]' && ip -4 addr show dev hca1 | grep 10.1.0.2"); err != nil {
		t.Error("the interface lacks its name or its address")
	}
	testRun(t, node, state, "epilog", never)
	testSame(t, node, state, before)
}
