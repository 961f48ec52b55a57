package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrHeldUp means that a search was given up, since what it looked at did not answer.
var ErrHeldUp = errors.New("the search of all network namespaces is held up")

// How long a search may take, and be at one process. Variables for tests.
var (
	searchTimeout = 30 * time.Second
	lookTimeout   = 5 * time.Second
)

// searcher is the name under which this program searches, see init.
const searcher = "gresnet-searcher"

// init makes the program a searcher where search has started it as one. A search asks
// the kernel about files of users, of which some ask a user's own file server, and
// that wait can be deaf to signals. So a child does it, which is left behind then:
// like package mover's, with a session of its own and none of our streams. Unlike
// that it is a program of its own, since it takes memory and threads.
func init() {
	if os.Args[0] != searcher {
		return
	}
	if err := child(3); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// A child's messages, of a word and what belongs to it.
const (
	atProcess = "at"   // PROCESS: it looks at that one now
	sighted   = "seen" // ID WHO: who has a namespace, which comes along at its first sighting
	allDone   = "done"
)

// maxMessage bounds a message. Who is longer is cut off.
const maxMessage = 8 << 10

// search has a child search all network namespaces, and calls see for all who have one.
// ns is nil but for the first of them, and is see's to close.
func search(see func(ns *NS, id, who string)) error {
	conn, end, err := startSearch()
	if err != nil {
		return fmt.Errorf("search all network namespaces: %w", err)
	}
	defer end()
	buffer, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	at := "/proc"
	for last := time.Now().Add(searchTimeout); ; {
		until := time.Now().Add(lookTimeout)
		if last.Before(until) {
			until = last
		}
		if err := conn.SetReadDeadline(until); err != nil {
			return err
		}
		n, nrights, _, _, err := conn.ReadMsgUnix(buffer, rights)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w by %s", ErrHeldUp, at)
		}
		if err != nil {
			return fmt.Errorf("search all network namespaces: %w", err)
		}
		word, rest, _ := strings.Cut(string(buffer[:n]), " ")
		switch word {
		case atProcess:
			at = rest
		case sighted:
			ns, err := received(rights[:nrights])
			if err != nil {
				return fmt.Errorf("search all network namespaces: %w", err)
			}
			id, who, _ := strings.Cut(rest, " ")
			see(ns, id, who)
		case allDone:
			return nil
		default:
			return errors.New("search all network namespaces: the process that searches has ended")
		}
	}
}

// startSearch starts the child. end leaves it behind if it has not ended.
func startSearch() (conn *net.UnixConn, end func(), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "search"), os.NewFile(uintptr(pair[1]), "search")
	defer ours.Close()
	defer theirs.Close()
	any, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, err
	}
	conn = any.(*net.UnixConn)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{searcher}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, func() {
		conn.Close()
		cmd.Process.Kill()
		go cmd.Wait() // deaf to signals it may never end
	}, nil
}

// received is the namespace that came with a message, if any.
func received(rights []byte) (*NS, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	return of(fds[0])
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
