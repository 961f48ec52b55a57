package users

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
)

// some is how many users of an HCA are named. A search for more is in vain: one is enough.
const some = 3

// seeker is the searcher, in its own process.
type seeker struct {
	say      detach.Say
	progress *proc.Progress
	cm       proc.Number // of the device node of RDMA-CM
	targets  []*sought
}

// sought is a target, and who uses it.
type sought struct {
	*target
	known []int    // processes that opened it themselves
	users []string // that have it
	roots []string // of root's that have it
	cm    []string // users that have RDMA-CM open
}

// child is the searcher. Its arguments are the number of RDMA-CM's device node and the targets.
func child(args []string, say detach.Say) error {
	if len(args) == 0 {
		return errors.New("no arguments")
	}
	s := &seeker{say: say, progress: proc.TellProgress(say)}
	s.cm, _ = parseNumber(args[0]) // "-" where the node has none
	conn, err := rdma.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, text := range args[1:] {
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		if err := s.list(conn, t); err != nil {
			return err
		}
	}
	if len(s.targets) > 0 {
		return s.seek()
	}
	return nil
}

// list answers by the kernel's list of who uses an HCA, unless a process that began to use it has ended.
func (s *seeker) list(conn *rdma.Conn, t *target) error {
	holders, err := conn.Holders(t.index, nil, func(h rdma.Holder) bool {
		s.progress.At(int(h.PID), 0)
		return true
	})
	if err != nil {
		return err
	}
	f := &sought{target: t}
	abandoned := f.note(holders)
	if _, err := conn.Contexts(t.index, 0); errors.Is(err, rdma.ErrNoContexts) {
		uses, _, err := conn.UsesOf(t.index)
		if err != nil {
			return err
		}
		abandoned = abandoned || uses.Contexts > uint64(len(f.known))
	}
	if !abandoned || len(f.users) > 0 {
		return s.answer(t, who(f.users))
	}
	s.targets = append(s.targets, f)
	return s.say(fmt.Sprintf("%s %d", saidHanded, t.index), -1)
}

// note notes the users' processes among those that the kernel names. It tells whether there is one that has
// ended, before the kernel named it or since: its descriptor may be somebody else's now.
func (f *sought) note(holders []rdma.Holder) (abandoned bool) {
	for _, h := range holders {
		abandoned = abandoned || h == rdma.Holder{}
		if h.PID == 0 || len(f.users) == some {
			continue
		}
		f.known = append(f.known, int(h.PID))
		f.users = appendUser(f.users, int(h.PID))
		abandoned = abandoned || hasEnded(int(h.PID))
	}
	return abandoned
}

// appendUser adds a process unless it is root's, whose programs are the site's affair, or has ended.
func appendUser(list []string, pid int) []string {
	p, uid, err := proc.UserOf(pid)
	if err != nil || uid == 0 || len(list) == some {
		return list
	}
	return append(list, fmt.Sprintf("%s of user %d", p, uid))
}

// hasEnded tells whether a process is not there any more, or cannot be looked at.
func hasEnded(pid int) bool {
	_, _, err := proc.UserOf(pid)
	return err != nil
}

// who names the first users that were found.
func who(users []string) string {
	if len(users) < some {
		return strings.Join(users, ", ")
	}
	return strings.Join(users, ", ") + " and perhaps others"
}

func (s *seeker) answer(t *target, who string) error {
	return s.say(fmt.Sprintf("%s %d %s", saidUsed, t.index, who), -1)
}

// seek looks for who was handed a descriptor, for all targets that need it by one look at all processes.
func (s *seeker) seek() error {
	look := proc.Openers{At: s.progress.At, See: s.see}
	if s.cm != (proc.Number{}) {
		look.Devices = append(look.Devices, s.cm)
	}
	for _, f := range s.targets {
		look.Devices = append(look.Devices, f.numbers...)
	}
	if err := look.Look(); err != nil {
		return err
	}
	for _, f := range s.targets {
		if err := s.answer(f.target, f.verdict()); err != nil {
			return err
		}
	}
	return nil
}

// see notes that a process has a device open, and tells whether more are worth a look.
func (s *seeker) see(pid int, n proc.Number) (more bool) {
	p, uid, err := proc.UserOf(pid)
	for _, f := range s.targets {
		switch {
		case err != nil:
		case n == s.cm:
			f.cm = appendUser(f.cm, pid)
		case !slices.Contains(f.numbers, n) || slices.Contains(f.known, pid):
		case uid == 0 && len(f.roots) < some:
			f.roots = append(f.roots, p.String())
		case uid != 0 && len(f.users) < some:
			f.users = appendUser(f.users, pid)
			_ = s.answer(f.target, who(f.users)) // the search may be over soon
		}
		more = more || len(f.users) < some
	}
	return more
}

// verdict says who uses an HCA after the process that began to use it has ended. That is never nobody:
// the kernel does not say which descriptor a context has, and a user's can be on its way in a socket, where
// no process has it. So no process of root's that has the HCA open, too, speaks for the user.
func (f *sought) verdict() string {
	switch {
	case len(f.users) > 0:
		return who(f.users)
	case len(f.cm) > 0:
		return handedOn + ", one of: " + who(f.cm)
	case len(f.roots) > 0:
		return handedOn + ", and is not found, or perhaps root's " + who(f.roots)
	}
	return handedOn + ", and is not found"
}

const handedOn = "a process that was handed a descriptor"
