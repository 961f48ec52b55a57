package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/mount"
	"gresnet/lib/words/plain"
)

// resolveCached is RESOLVE_CACHED (linux/openat2.h), which package unix lacks.
const resolveCached = 0x20

// finder searches, and says what it finds.
type finder struct {
	say    detach.Say
	nsfs   uint64 // device number of the file system that namespaces are on
	sent   map[string]bool
	mounts map[string]bool // the mount namespaces that were looked at
	late   []bound
}

// bound is a file of a mount namespace that stands for a network namespace.
type bound struct {
	process string
	point   string // from the process's root
}

func (b bound) who() string {
	if b.process == "/proc/1" {
		return plain.Name(b.point)
	}
	return plain.Name(b.process + "/root" + b.point)
}

// child is the searcher.
func child(_ []string, say detach.Say) error {
	home, err := Current()
	if err != nil {
		return err
	}
	f := &finder{say: say, nsfs: home.dev, sent: map[string]bool{}, mounts: map[string]bool{}}
	list, err := processes()
	if err != nil {
		return err
	}
	// Descriptors go after what takes no time: users have as many as they like.
	for _, look := range []func(process, who string) error{f.lookThreads, f.lookMounts, f.lookOpen} {
		for _, process := range list {
			if err := f.look(process, look); err != nil {
				return err
			}
		}
	}
	// What a file server is asked for on the way goes last: it may never answer.
	for _, b := range f.late {
		if err := f.say.At(b.who()); err != nil {
			return err
		}
		if _, err := f.lookBound(b, 0); err != nil {
			return err
		}
	}
	return nil
}

// processes returns the folders of all processes, root's own before those of users. The owner
// of the folder itself is who the process is (fs/proc/base.c:task_dump_owner).
func processes() ([]string, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	users := map[string]int{}
	for _, process := range all {
		var st unix.Stat_t
		if err := unix.Stat(process, &st); err == nil && st.Uid != 0 {
			users[process] = 1
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return users[a] - users[b] })
	return all, nil
}

// look has a process looked at. It may end meanwhile; what it alone had is gone then.
func (f *finder) look(process string, look func(process, who string) error) error {
	comm, _ := os.ReadFile(process + "/comm")
	who := fmt.Sprintf("%s (pid %s)", plain.Name(string(bytes.TrimSuffix(comm, []byte("\n")))), filepath.Base(process))
	if err := f.say.At(who); err != nil {
		return err
	}
	return look(process, who)
}

// lookThreads looks at the namespaces that the threads of a process are in.
func (f *finder) lookThreads(process, who string) error {
	tasks, _ := filepath.Glob(process + "/task/[0-9]*/ns/net")
	return f.lookFiles(tasks, who)
}

// lookOpen looks at what a process has open.
func (f *finder) lookOpen(process, who string) error { return f.lookFiles(openFiles(process), who) }

func (f *finder) lookFiles(links []string, who string) error {
	for _, link := range links {
		if err := f.lookFile(link, who); err != nil {
			return err
		}
	}
	return nil
}

// lookMounts looks at what is bound in the mount namespace of a process, once for all processes there.
func (f *finder) lookMounts(process, _ string) error {
	mnt, err := os.Readlink(process + "/ns/mnt")
	if err != nil || f.mounts[mnt] {
		return nil
	}
	f.mounts[mnt] = true
	for _, b := range mounted(process) {
		// Mount points are in the kernel's cache, so that the way there takes no file server.
		wait, err := f.lookBound(b, resolveCached)
		if err != nil {
			return err
		}
		if wait {
			f.late = append(f.late, b)
		}
	}
	return nil
}

// lookFile looks at a link in /proc.
func (f *finder) lookFile(link, who string) error {
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return f.check(fd, who)
}

// lookBound looks at a file that a mount namespace's user names. wait tells that it is to
// be resolved without RESOLVE_CACHED: a file server is on the way, or the kernel is
// older than 5.12. Before 5.6 nothing of it can be looked at safely.
func (f *finder) lookBound(b bound, cached uint64) (wait bool, err error) {
	root, err := unix.Open(b.process+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, strings.TrimPrefix(b.point, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | cached,
	})
	if err != nil {
		return cached != 0 && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINVAL)), nil
	}
	defer unix.Close(fd)
	return false, f.check(fd, b.who())
}

// check opens what an O_PATH descriptor stands for if it is on the namespaces' file system,
// and nothing else: to open a device can start it, to open a pipe can wait.
func (f *finder) check(fd int, who string) error {
	var st unix.Statx_t
	// fstat and fstatfs would ask a file server.
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &st)
	if err != nil || unix.Mkdev(st.Dev_major, st.Dev_minor) != f.nsfs {
		return nil
	}
	opened, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	ns, err := of(opened)
	if err != nil {
		return nil // of another kind
	}
	defer ns.Close()
	return f.tell(ns, who)
}

// tell says who has a namespace, once, and sends it along the first time.
func (f *finder) tell(ns *NS, who string) error {
	id := ns.String()
	message := id + " " + who
	if f.sent[message] {
		return nil
	}
	fd := -1
	if !f.sent[id] {
		fd = ns.FD()
	}
	f.sent[id], f.sent[message] = true, true
	return f.say(message, fd)
}

// openFiles returns a process's descriptors that may stand for a namespace.
func openFiles(process string) (paths []string) {
	links, _ := filepath.Glob(process + "/fd/[0-9]*")
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !mayBeBound(to) || !mayBeNamespace(process+"/fdinfo/"+filepath.Base(link)) {
			continue
		}
		paths = append(paths, link)
	}
	return paths
}

// mayBeBound tells a descriptor, by what its link says, that may stand for a namespace:
// "net:[4026531840]" where it was opened in /proc, else the path that it was bound to.
// It is no anonymous file: some of these take a lock for fdinfo that a user can hold
// (fs/eventpoll.c:ep_show_fdinfo).
func mayBeBound(link string) bool {
	return strings.HasPrefix(link, "net:[") || strings.HasPrefix(link, "/")
}

// mayBeNamespace tells a descriptor, by what the kernel itself knows of it
// (proc_pid_fdinfo(5)), that has an inode number as namespaces have. To open the others,
// if only as a path, may take for ever: some file systems ask their server first.
func mayBeNamespace(info string) bool {
	text, err := os.ReadFile(info)
	if err != nil {
		return false // it was closed meanwhile
	}
	_, rest, told := strings.Cut(string(text), "\nino:\t")
	if !told {
		return true // before kernel 5.14
	}
	number, _, _ := strings.Cut(rest, "\n")
	ino, err := strconv.ParseUint(number, 10, 64)
	// include/linux/proc_fs.h:PROC_DYNAMIC_FIRST is 0xf0000000; the first ones are below.
	return err == nil && ino >= 0xe0000000 && ino <= 0xffffffff
}

// mounted returns the files of a process's mount namespace that stand for network namespaces.
func mounted(process string) (list []bound) {
	text, err := os.ReadFile(process + "/mountinfo")
	if err != nil {
		return nil // it has ended
	}
	for _, m := range mount.Parse(text) {
		if strings.HasPrefix(m.Root, "net:[") {
			list = append(list, bound{process, m.Mountpoint})
		}
	}
	return list
}
