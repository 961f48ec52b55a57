package netns

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/mountinfo"
)

// All opens every network namespace that can be entered: those that a thread
// is in or has open, and those that a file of some mount namespace stands for.
// One that nothing but a socket keeps alive cannot.
//
// It looks at every process and is meant for when something is lost.
func All() ([]*NS, error) {
	home, err := Current()
	if err != nil {
		return nil, err
	}
	defer home.Close()
	places, err := sightings(home)
	if err != nil {
		return nil, err
	}
	seen := map[string]*NS{}
	for _, p := range places {
		add(seen, p.path)
	}
	all := make([]*NS, 0, len(seen))
	for _, ns := range seen {
		all = append(all, ns)
	}
	return all, nil
}

// sighting is a file that stands for a network namespace, and who has it.
type sighting struct{ path, who string }

// sightings are those of all processes and of all their mount namespaces. A
// process may end while it is looked at; what it alone had is gone then.
func sightings(home *NS) (all []sighting, err error) {
	mounts := map[string]bool{}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, process := range processes {
		comm, _ := os.ReadFile(process + "/comm")
		who := fmt.Sprintf("%s (pid %s)", bytes.TrimSpace(comm), filepath.Base(process))
		tasks, _ := filepath.Glob(process + "/task/[0-9]*/ns/net")
		for _, path := range append(tasks, openFiles(process, home.dev)...) {
			all = append(all, sighting{path, who})
		}
		if mnt, err := os.Readlink(process + "/ns/mnt"); err == nil && !mounts[mnt] {
			mounts[mnt] = true
			for _, path := range mounted(process) {
				all = append(all, sighting{path, strings.TrimPrefix(path, "/proc/1/root")})
			}
		}
	}
	return all, nil
}

// Others are the network namespaces besides the process's own that can be
// entered: by device and inode, who has each.
func Others() (map[string][]string, error) {
	home, err := Current()
	if err != nil {
		return nil, err
	}
	defer home.Close()
	places, err := sightings(home)
	if err != nil {
		return nil, err
	}
	others := map[string][]string{}
	for _, p := range places {
		ns, err := Open(p.path)
		if err != nil {
			continue
		}
		if id := ns.String(); id != home.String() && !slices.Contains(others[id], p.who) {
			others[id] = append(others[id], p.who)
		}
		ns.Close()
	}
	return others, nil
}

func add(seen map[string]*NS, path string) {
	ns, err := Open(path)
	if err != nil {
		return
	}
	if seen[ns.String()] != nil {
		ns.Close()
		return
	}
	seen[ns.String()] = ns
}

// openFiles are a process's descriptors on the file system of namespaces, told
// by its device number: what a link says depends on how it was opened, and
// opening what may be any device or pipe is not for a look.
func openFiles(process string, nsfs uint64) (paths []string) {
	links, _ := filepath.Glob(process + "/fd/[0-9]*")
	for _, link := range links {
		if !mayBeNamespace(process + "/fdinfo/" + filepath.Base(link)) {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(link, &st); err == nil && st.Dev == nsfs {
			paths = append(paths, link)
		}
	}
	return paths
}

// mayBeNamespace tells a descriptor, by what the kernel itself knows of it
// (proc_pid_fdinfo(5)), that has an inode number as namespaces have. To ask the others
// for their device number may take for ever: a file server that does not answer is asked, too.
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

// mounted are the files of a process's mount namespace that stand for network namespaces.
func mounted(process string) (paths []string) {
	text, err := os.ReadFile(process + "/mountinfo")
	if err != nil {
		return nil // it has ended
	}
	for _, m := range mountinfo.Parse(text) {
		if strings.HasPrefix(m.Root, "net:[") {
			paths = append(paths, process+"/root"+m.Mountpoint)
		}
	}
	return paths
}
