package netns

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/words/poll"
)

// ErrHeldUp means that a search was given up, since what it looked at did not answer.
var ErrHeldUp = errors.New("the search of all network namespaces is held up")

// Variables for tests.
var (
	searchTimeout = poll.NamespaceSearch
	lookTimeout   = poll.NamespaceLook
)

// searcher searches aside: the kernel asks users' own file servers about users' files.
var searcher = detach.New("gresnet-search", child)

// search searches all network namespaces, and calls see for all who have one. ns is nil
// but for the first of them, and is see's to close.
func search(see func(ns *NS, id, who string)) error {
	// A message is who has a namespace, ID WHO. The namespace comes along at its first sighting.
	at, err := searcher.Ask(time.Now().Add(searchTimeout), lookTimeout, func(message string, fd int) (err error) {
		var ns *NS
		if fd >= 0 {
			if ns, err = of(fd); err != nil {
				return err
			}
		}
		id, who, _ := strings.Cut(message, " ")
		see(ns, id, who)
		return nil
	})
	switch {
	case errors.Is(err, detach.ErrHeldUp):
		return fmt.Errorf("%w by %s", ErrHeldUp, cmp.Or(at, "/proc"))
	case err != nil:
		return fmt.Errorf("search all network namespaces: %w", err)
	}
	return nil
}

// of makes an NS of a descriptor, and closes one that is no network namespace's.
func of(fd int) (*NS, error) {
	ns := &NS{handle: netns.NsHandle(fd)}
	// The answer to NS_GET_NSTYPE is the clone flag; any other file says ENOTTY (ioctl_ns(2)).
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		ns.Close()
		return nil, ErrNotNetns
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		ns.Close()
		return nil, fmt.Errorf("stat a network namespace: %w", err)
	}
	ns.dev, ns.ino = st.Dev, st.Ino
	return ns, nil
}
