package lease

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

func TestALeaseWithALineThatDoesNotReadIsUndoneAndItsHCAsAreQuarantined(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	journal := filepath.Join(state, "jobs/4711/journal")
	for line := 1; ; line++ { // the first one says in which network namespace the lease was taken
		whole.run(t, node, state, "prolog", never)
		text, err := os.ReadFile(journal)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		lines = lines[:len(lines)-1]
		if line == len(lines) {
			break
		}
		lines[line][20] ^= 1
		if err := os.WriteFile(journal, bytes.Join(lines, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := whole.command(node, state, "epilog", never).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "journal damaged: job 4711: ") || !quarantined(t, state, "hca0") || !quarantined(t, state, "hca1") {
			t.Errorf("without line %d: %v: %s: the claims are %+v", line+1, err, out, held(t, state))
		}
		node.Run("ip link show hca0; ip link show hca1")
		if left, _ := os.ReadDir(state + "/jobs"); len(left) > 0 {
			t.Fatalf("without line %d the lease is still there: %v", line+1, left)
		}
		if out := whole.says(t, node, state, "epilog"); out != "" || !quarantined(t, state, "hca0") {
			t.Errorf("without line %d: another epilog says %q", line+1, out)
		}
		node, state = apartBed(t)
		journal = filepath.Join(state, "jobs/4711/journal")
	}
	whole.run(t, node, state, "epilog", never)
}

func TestALastLineThatAKillHasCutOffIsNoDamage(t *testing.T) {
	netnstest.Slow(t)
	node, state := apartBed(t)
	before := testPicture(node)
	for _, cut := range []int64{1, 5} {
		whole.run(t, node, state, "prolog", never)
		journal := filepath.Join(state, "jobs/4711/journal")
		// The entry of an action that was not begun.
		f, err := os.OpenFile(journal, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(`12345678 {"entry":99,"kind":"devices","data":{}}`[:40-cut])
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if out := whole.says(t, node, state, "epilog"); out != "" {
			t.Errorf("the epilog says %q", out)
		}
		testSame(t, node, state, before)
	}
}
