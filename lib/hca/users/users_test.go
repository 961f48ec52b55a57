package users

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/words/node"
	"gresnet/lib/words/poll"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// keeps starts a program of a user that has a device open until the test ends.
func keeps(t *testing.T, node string, uid uint32) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `exec 3<"$0"; exec cat /proc/self/comm -`, node)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	standin.Start(t, cmd)
	return cmd.Process.Pid
}

// said returns a searcher's answers by the index of the HCA, the last of each.
func said(t *testing.T, s *seeker) map[uint32]string {
	t.Helper()
	all := map[uint32]string{}
	s.progress = new(proc.Progress)
	s.say = func(message string, _ int) error {
		var index uint32
		if _, err := fmt.Sscanf(message, saidUsed+" %d", &index); err != nil {
			t.Errorf("it says %q", message)
		}
		all[index] = strings.TrimPrefix(message, fmt.Sprintf("%s %d ", saidUsed, index))
		return nil
	}
	if err := s.seek(); err != nil {
		t.Fatal(err)
	}
	return all
}

// One look at all processes answers for all HCAs of which the process that began to use them has ended.
func TestOneSearchFindsWhoWasHandedADescriptorOfEachHCA(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make device nodes")
	}
	dir, err := os.MkdirTemp("", "userstest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Devices of memory that no other program of a test's machine has open under these names.
	number := map[string]uint32{"uverbs0": 3, "uverbs1": 5, "uverbs2": 7, "uverbs3": 8, "rdma_cm": 9}
	for name, minor := range number {
		path := filepath.Join(dir, name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	user, byCM := keeps(t, dir+"/uverbs0", 65534), keeps(t, dir+"/rdma_cm", 65534)
	root := keeps(t, dir+"/uverbs1", 0) // a user's descriptor can be on its way in a socket nevertheless
	opener := keeps(t, dir+"/uverbs2", 0)
	find := func(cm proc.Number) map[uint32]string {
		s := &seeker{cm: cm}
		for i := range uint32(4) {
			f := &sought{target: &target{index: i, numbers: []proc.Number{{Major: 1, Minor: number[fmt.Sprintf("uverbs%d", i)]}}}}
			if i == 2 {
				f.known = []int{opener} // whoever has what it opened itself is not who was handed something
			}
			s.targets = append(s.targets, f)
		}
		return said(t, s)
	}
	handed := "a process that was handed a descriptor, and is not found"
	want := map[uint32]string{0: fmt.Sprintf("cat (pid %d) of user 65534", user), 1: fmt.Sprintf("%s, or perhaps root's cat (pid %d)", handed, root), 2: handed, 3: handed}
	for i, text := range find(proc.Number{}) {
		if text != want[i] {
			t.Errorf("HCA %d is used by %q, wanted %q (root's is %d)", i, text, want[i], root)
		}
	}
	one := fmt.Sprintf("a process that was handed a descriptor, one of: cat (pid %d) of user 65534", byCM)
	for i, text := range find(proc.Number{Major: 1, Minor: 9}) {
		if i >= 1 && text != one {
			t.Errorf("HCA %d is used by %q, wanted %q", i, text, one)
		}
	}
}

// What a search does not answer in time counts as used, and the text says where the search was.
func TestAnHCAOfWhichASearchIsNotOverInTimeIsUsed(t *testing.T) {
	for _, handed := range []bool{false, true} {
		tg := &target{handed: handed}
		text := tg.unfound(errors.New("the search was over after 5s, at cat (pid 7) of user 1000"))
		if !strings.Contains(text, "cat (pid 7) of user 1000") || strings.Contains(text, "handed") != handed {
			t.Errorf("handed %t: %q", handed, text)
		}
	}
}

func TestARunSearchesForABoundedTimeInAll(t *testing.T) {
	var s Run
	all := time.Duration(0)
	for range 100 {
		left := s.left()
		if left > poll.UserSearch {
			t.Fatalf("one search may take %s", left)
		}
		s.add(left, nil)
		all += left
	}
	if all != poll.UserSearches || s.left() != 0 {
		t.Errorf("all searches may take %s, wanted %s", all, poll.UserSearches)
	}
}

// Under the node lock nobody searches: an answer holds while the HCA has the same contexts, and what has
// none yet is asked for, as often as a look may search.
func TestAnAnswerHoldsWhileAnHCAHasTheSameContexts(t *testing.T) {
	id := node.ID{GUID: "0002:c903:0000:0100"}
	users, roots := answer{contexts: 1, listed: []uint32{4}, text: "cat (pid 7) of user 1000"}, answer{contexts: 1, listed: []uint32{4}}
	for _, c := range []struct {
		answer      answer
		uses        rdma.Uses
		listed      []uint32
		used, asked bool
	}{
		{answer: users},
		{answer: users, uses: rdma.Uses{Contexts: 1}, used: true},
		{answer: users, uses: rdma.Uses{Contexts: 2}, used: true, asked: true},
		{answer: users, uses: rdma.Uses{Contexts: 1, IDs: 70000}, used: true},
		{answer: roots, uses: rdma.Uses{Contexts: 1}, listed: []uint32{4}},
		{answer: roots, uses: rdma.Uses{Contexts: 1, IDs: 3}, listed: []uint32{4}},
		{answer: roots, uses: rdma.Uses{Contexts: 1}, listed: []uint32{5}, used: true, asked: true}, // another's
		{answer: roots, uses: rdma.Uses{Contexts: 2}, listed: []uint32{4, 5}, used: true, asked: true},
		{answer: answer{contexts: 1}, uses: rdma.Uses{Contexts: 1}}, // on a kernel that does not list them
	} {
		list := func(_ uint32, most int) ([]uint32, error) {
			if len(c.listed) > most {
				return nil, rdma.ErrTooMany
			}
			return c.listed, nil
		}
		u := &Look{list: list, found: map[node.ID]answer{id: c.answer}, Asked: map[node.ID]struct{}{}}
		used := u.judge(id, 0, c.uses) != ""
		if _, asked := u.Asked[id]; used != c.used || asked != c.asked {
			t.Errorf("with %+v, %v after %+v it is used %t and asked for %t", c.uses, c.listed, c.answer, used, asked)
		}
	}
	u := &Look{Asked: map[node.ID]struct{}{}, tries: maxTries}
	if u.judge(id, 0, rdma.Uses{IDs: 1}) == "" || len(u.Asked) > 0 {
		t.Error("what no search has answered for is free, or searched for without an end")
	}
}

func TestATargetIsToldAsItIs(t *testing.T) {
	for _, numbers := range [][]proc.Number{nil, {{Major: 231, Minor: 192}}, {{Major: 231, Minor: 192}, {Major: 500, Minor: 3}}} {
		tg := &target{index: 7, numbers: numbers}
		got, err := parseTarget(tg.format())
		if err != nil || got.index != 7 || !slices.Equal(got.numbers, numbers) {
			t.Errorf("%+v is told as %q and read as %+v, %v", tg, tg.format(), got, err)
		}
	}
}

func TestAHolderThatHasEndedMayHaveHandedItsDescriptorOn(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		holder rdma.Holder
		want   bool
	}{{rdma.Holder{PID: uint32(os.Getpid())}, false}, {rdma.Holder{PID: uint32(ended.Process.Pid)}, true}, {rdma.Holder{}, true}} {
		if got := new(sought).note([]rdma.Holder{c.holder}); got != c.want {
			t.Errorf("%+v is taken for abandoned: %t", c.holder, got)
		}
	}
}
