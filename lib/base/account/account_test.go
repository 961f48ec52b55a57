package account

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func etc(defs, subuid string) fstest.MapFS {
	return fstest.MapFS{"login.defs": {Data: []byte(defs)}, "subuid": {Data: []byte(subuid)}}
}

func TestPeopleAreToldFromServices(t *testing.T) {
	for _, c := range []struct {
		name         string
		etc          fstest.MapFS
		own, subuids string
	}{
		{"no files", nil, "[{1000 61183} {65520 65533} {65535 2147483647}]", "[{2147483648 4294967294}]"},
		{"a site's first uid", etc("# UID_MIN 7\nSYS_UID_MIN 100\nUID_MIN\t\t 0x1f4\nUID_MIN 9\n", ""), "[{500 61183} {65520 65533} {65535 2147483647}]", "[{2147483648 4294967294}]"},
		{"what is no uid", etc("UID_MIN many\n", ""), "[{1000 61183} {65520 65533} {65535 2147483647}]", "[{2147483648 4294967294}]"},
		{"what useradd gives", etc("", "alice:100000:65536\nbob:165536:65536\n"), "[{1000 61183} {65520 65533} {65535 99999} {231072 2147483647}]", "[{100000 231071} {2147483648 4294967294}]"},
		{"lines that mean nothing", etc("", "\n# x\nalice:1\nalice::2\nbob:70000:0\nbob:-1:5\n:9\n"), "[{1000 61183} {65520 65533} {65535 2147483647}]", "[{2147483648 4294967294}]"},
		{"a range over everything", etc("", "root:0:4294967295\n"), "[]", "[{1000 61183} {65520 65533} {65535 4294967294}]"},
	} {
		u, err := Read(c.etc)
		if own, subuids := fmt.Sprint(u.Own), fmt.Sprint(u.Subuid); err != nil || own != c.own || subuids != c.subuids {
			t.Errorf("%s: own %s, subuids %s, %v; want %s, %s", c.name, own, subuids, err, c.own, c.subuids)
		}
	}
}

func TestEachUIDIsInOneListAtMostAndNoSubuidIsAUser(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var lines strings.Builder
		given := make([]Range, r.IntN(60))
		for i := range given {
			first, count := 1000+r.Uint32N(1<<24), 1+r.Uint32N(1<<17)
			given[i] = Range{first, first + count - 1}
			fmt.Fprintf(&lines, "user%d:%d:%d\n", i, first, count)
		}
		u, err := Read(etc("", lines.String()))
		if err != nil || len(u.Subuid) > 20 || len(u.Own) > 20 {
			t.Fatalf("%d and %d ranges, %v", len(u.Own), len(u.Subuid), err)
		}
		for _, uid := range probes(given) {
			own, sub := u.Has(uid), Users{Own: u.Subuid}.Has(uid)
			system := uid < 1000 || Users{Own: services}.Has(uid) || uid == invalid
			if own && sub || system == (own || sub) || own && (Users{Own: given}).Has(uid) {
				t.Fatalf("uid %d: own %v, subuid %v, system %v of\n%s", uid, own, sub, system, &lines)
			}
		}
	}
}

// probes returns uids at both sides of each end of a range.
func probes(list []Range) (uids []uint32) {
	for _, r := range append(append(list, services...), Range{1000, beyond}, Range{0, invalid}) {
		uids = append(uids, r.First-1, r.First, r.First+1, r.Last-1, r.Last, r.Last+1)
	}
	return uids
}

func TestRangesThatMeetAreOne(t *testing.T) {
	if got, want := joined([]Range{{5, 9}, {1, 4}, {20, invalid}, {8, 12}, {14, 14}, {30, 31}}), []Range{{1, 12}, {14, 14}, {20, invalid}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
