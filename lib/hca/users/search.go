package users

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/words/node"
	"gresnet/lib/words/poll"
)

// searcher searches aside.
var searcher = detach.New("gresnet-users", child)

// A searcher's messages, of a word and what belongs to it.
const (
	saidUsed   = "used"   // INDEX WHO: who uses the HCA; nobody if that is empty
	saidHanded = "handed" // INDEX: somebody who was handed a descriptor, and is not found yet
)

// target is an HCA that a search is about.
type target struct {
	id      node.ID
	index   uint32 // of the RDMA device
	numbers []proc.Number
	uses    rdma.Uses
	listing error // why the contexts are not listed
	answer  answer
	handed  bool
}

// mostContexts is how many contexts a look compares: more than all programs of root's have of an HCA.
const mostContexts = 4096

// search searches for who uses HCAs, for all of them at once. If a job has one of them, or gets it
// meanwhile, the answer may be that job.
func (u *Look) search(ids []node.ID) {
	if err := u.Refresh(); err != nil {
		u.Err = err
		return
	}
	u.tries++
	var all []*target
	for _, id := range ids {
		id = id.Whole()
		known := slices.ContainsFunc(all, func(t *target) bool { return t.id == id })
		if d, uses, err := u.device(id); !known && err == nil && uses.Contexts+uses.IDs > 0 {
			all = append(all, &target{id: id, index: d.Index, numbers: numbersOf(d), uses: uses, answer: answer{contexts: uses.Contexts}})
		}
	}
	if len(all) == 0 {
		return
	}
	// What takes longest comes last, so a user who has much of one HCA keeps no answer about another away.
	slices.SortStableFunc(all, func(a, b *target) int {
		return cmp.Compare(a.uses.Contexts+a.uses.IDs, b.uses.Contexts+b.uses.IDs)
	})
	for _, t := range all {
		if t.uses.Contexts > 0 {
			t.answer.listed, t.listing = u.list(t.index, mostContexts)
		}
	}
	left := u.run.left()
	begun := time.Now()
	err := u.ask(all, begun.Add(left))
	for _, t := range all {
		switch {
		case err != nil && t.answer.text == unanswered:
			t.answer.text = t.unfound(err)
		case t.answer.text == "" && t.listing != nil && !errors.Is(t.listing, rdma.ErrNoContexts):
			t.answer.text = t.unfound(t.listing)
		}
		u.found[t.id] = t.answer
	}
	u.run.add(time.Since(begun), u.found)
}

func (r *Run) left() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return max(0, min(poll.UserSearch, poll.UserSearches-r.spent))
}

func (r *Run) add(t time.Duration, found map[node.ID]answer) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.spent += t
	r.found = maps.Clone(found)
}

func (r *Run) last(id node.ID) (answer, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	a, is := r.found[id]
	return a, is
}

func numbersOf(d scan.Device) (list []proc.Number) {
	for _, c := range d.Chars {
		list = append(list, proc.Number{Major: c.Major, Minor: c.Minor})
	}
	return list
}

// unanswered is the text of an answer that has not come.
const unanswered = "?"

// unfound says who uses an HCA if that was not found out: for want of time, or by a fault, which is not to
// cost the job more than this HCA.
func (t *target) unfound(why error) string {
	who := "a process that was not found"
	if t.handed {
		who = handedOn + " and was not found"
	}
	return fmt.Sprintf("%s (%s)", who, why)
}

// ask has a searcher answer for targets. The error is why it has not answered for all.
func (u *Look) ask(all []*target, until time.Time) error {
	args := []string{"-"}
	major, minor, err := sysfs.Dev(u.sys, "misc", "rdma_cm")
	if err == nil {
		args = []string{formatNumber(proc.Number{Major: major, Minor: minor})}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, t := range all {
		t.answer.text = unanswered
		args = append(args, t.format())
	}
	begun := time.Now()
	at, err := searcher.Ask(until, 0, func(message string, _ int) error {
		word, rest, _ := strings.Cut(message, " ")
		hear(all, word, rest)
		return nil
	}, args...)
	switch {
	case errors.Is(err, detach.ErrHeldUp) && at != "":
		return fmt.Errorf("the search was over after %s, at %s", time.Since(begun).Round(time.Second), at)
	case errors.Is(err, detach.ErrHeldUp):
		return fmt.Errorf("the search was over after %s", time.Since(begun).Round(time.Second))
	case err != nil:
		return fmt.Errorf("search for it: %w", err)
	}
	return nil
}

// hear takes a searcher's answer.
func hear(all []*target, word, rest string) {
	number, who, _ := strings.Cut(rest, " ")
	for _, t := range all {
		if strconv.FormatUint(uint64(t.index), 10) != number {
			continue
		}
		if t.handed = word == saidHanded; !t.handed {
			t.answer.text = who
		}
	}
}

// format and parseTarget are how a searcher is told of a target: INDEX=MAJOR:MINOR,…
func (t *target) format() string {
	var numbers []string
	for _, n := range t.numbers {
		numbers = append(numbers, formatNumber(n))
	}
	return fmt.Sprintf("%d=%s", t.index, strings.Join(numbers, ","))
}

func formatNumber(n proc.Number) string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

func parseTarget(text string) (*target, error) {
	index, list, _ := strings.Cut(text, "=")
	number, err := strconv.ParseUint(index, 10, 32)
	if err != nil {
		return nil, err
	}
	t := &target{index: uint32(number)}
	for text := range strings.SplitSeq(list, ",") {
		if n, err := parseNumber(text); err == nil {
			t.numbers = append(t.numbers, n)
		}
	}
	return t, nil
}

func parseNumber(text string) (n proc.Number, err error) {
	_, err = fmt.Sscanf(text, "%d:%d", &n.Major, &n.Minor)
	return n, err
}
