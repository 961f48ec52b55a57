package soak

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/test/guest/vm"
)

// count is one thing that jobs might leave on a node.
type count struct {
	what string
	n    int64
	// held: jobs must leave no more than there were. Memory has a bound, since Slurm and the
	// kernel keep some for later; the table tells of what else they decide.
	held bool
	has  []string // what was counted, where that has names
}

// What may be less or more by a bound.
const (
	slurmdMemory    = "slurmd: memory, KiB"
	availableMemory = "memory available, KiB"
	kernelMemory    = "slab, unreclaimable, KiB"
)

// counts returns those of the node now.
func counts(t *testing.T) (all []count) {
	t.Helper()
	names := func(what string, has []string) {
		slices.Sort(has)
		all = append(all, count{what, int64(len(has)), true, has})
	}
	told := func(what string, n int64) { all = append(all, count{what: what, n: n}) }

	slurmd := pidOf("slurmd")
	names("slurmd: descriptors", links(slurmd+"/fd/*"))
	names("slurmd: mounts", mounts(slurmd))
	all = append(all, count{what: "slurmd: threads", n: int64(len(glob(slurmd + "/task/*"))), held: true})
	p := processes()
	names("processes", p.names)
	names("processes of slurmstepd's", p.slurmstepds)
	names("zombies", p.zombies)
	names("namespaces of networks, by processes, descriptors and mounts", p.namespaces("net"))
	names("namespaces of mounts", p.namespaces("mnt"))
	names("other namespaces", p.namespaces("uts", "ipc", "pid", "user", "cgroup", "time"))
	names("mounts, in all namespaces", p.mounts)
	names("named namespaces", glob("/run/netns/*"))
	names("cgroups", folders("/sys/fs/cgroup"))
	names("pins below /sys/fs/bpf", below("/sys/fs/bpf"))
	for what, command := range map[string]uintptr{"programs": unix.BPF_PROG_GET_NEXT_ID, "maps": unix.BPF_MAP_GET_NEXT_ID, "links": unix.BPF_LINK_GET_NEXT_ID} {
		all = append(all, count{what: "BPF " + what, n: int64(objects(t, command)), held: true})
	}
	names("nftables tables", lines(vm.Run(t, "nft list tables")))
	names("network interfaces", glob("/sys/class/net/*"))
	names("files below /run", below("/run"))
	names("files below /tmp", below("/tmp"))
	names("files below /dev", below("/dev"))
	names("files of slurmd's", below("/var/spool/slurmd"))
	all = append(all, count{what: "locks of files", n: int64(len(lines(read("/proc/locks")))), held: true})

	settle()
	told(slurmdMemory, field(slurmd+"/status", "VmRSS:"))
	told(availableMemory, field("/proc/meminfo", "MemAvailable:"))
	told("slab, reclaimable, KiB", field("/proc/meminfo", "SReclaimable:"))
	told(kernelMemory, field("/proc/meminfo", "SUnreclaim:"))
	told("memory by processors, KiB", field("/proc/meminfo", "Percpu:"))
	told("files in memory, KiB", field("/proc/meminfo", "Shmem:"))
	told("descriptors in the kernel", first(read("/proc/sys/fs/file-nr")))
	told("slab objects net_namespace", field("/proc/slabinfo", "net_namespace"))
	told("cgroups that are dying", field("/sys/fs/cgroup/cgroup.stat", "nr_dying_descendants"))
	slices.SortFunc(all, func(a, b count) int { return strings.Compare(a.what, b.what) })
	return all
}

// settle has the kernel let go of what it keeps for later, and empties Slurm's logs, which are in
// memory here.
func settle() {
	for _, log := range glob("/var/log/slurm*.log") {
		os.Truncate(log, 0)
	}
	os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// more returns the counts that are higher than they were, with what is new.
func more(before, now []count) (all []string) {
	for i, c := range now {
		if !c.held || c.n <= before[i].n {
			continue
		}
		text := fmt.Sprintf("%s: %d before, %d now", c.what, before[i].n, c.n)
		left := slices.Clone(before[i].has)
		for _, has := range c.has {
			if at := slices.Index(left, has); at >= 0 {
				left = slices.Delete(left, at, at+1)
				continue
			}
			text += "\n\t" + has
		}
		all = append(all, text)
	}
	return all
}

// table returns the counts of before and after side by side.
func table(before, after []count) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tbefore\tafter\t")
	for _, held := range []bool{true, false} {
		for i, c := range before {
			if c.held != held {
				continue
			}
			note := ""
			if !held {
				note = "told only"
				if most, bound := mib[c.what]; bound {
					note = fmt.Sprintf("at most %d MiB", most)
				}
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", c.what, c.n, after[i].n, note)
		}
	}
	w.Flush()
	return text.String()
}

// nothingMore waits until nothing is left that was not there, since what ends takes its time.
func nothingMore(t *testing.T, before []count) (now []count) {
	t.Helper()
	var left []string
	for end := time.Now().Add(vm.Slow(30 * time.Second)); ; time.Sleep(500 * time.Millisecond) {
		now = counts(t)
		if left = more(before, now); len(left) == 0 {
			return now
		}
		if time.Now().After(end) {
			t.Errorf("jobs have left:\n%s", strings.Join(left, "\n"))
			return now
		}
	}
}

type running struct {
	names, slurmstepds, zombies, mounts []string
	spaces                              map[string]map[string]bool
}

var (
	space     = regexp.MustCompile(`^([a-z]+)(?:_for_children)?:\[\d+\]$`)
	nsfs      = regexp.MustCompile(` ([a-z]+):\[\d+\] `)
	unchanged = regexp.MustCompile(`^\d+ \d+ `) // the ids of a mount
)

// processes reads /proc once: kernel threads come and go by themselves and are left out.
func processes() running {
	r := running{spaces: map[string]map[string]bool{}}
	note := func(kind, name string) {
		if r.spaces[kind] == nil {
			r.spaces[kind] = map[string]bool{}
		}
		r.spaces[kind][name] = true
	}
	seen := map[string]bool{}
	for _, p := range glob("/proc/[0-9]*") {
		stat := read(p + "/stat")
		_, rest, ok := strings.Cut(stat, ") ")
		if fields := strings.Fields(rest); !ok || len(fields) < 2 || fields[1] == "2" || p == "/proc/2" {
			continue
		}
		name := strings.TrimSpace(read(p + "/comm"))
		switch {
		case rest[0] == 'Z':
			r.zombies = append(r.zombies, name)
			continue
		case p == fmt.Sprintf("/proc/%d", os.Getpid()): // this test
		case strings.HasPrefix(name, "systemd-udevd"), strings.HasPrefix(name, "(udev-worker"): // as many as it likes
		default:
			r.names = append(r.names, name)
		}
		if strings.HasPrefix(name, "slurmstepd") {
			r.slurmstepds = append(r.slurmstepds, read(p+"/cmdline"))
		}
		for _, link := range links(p + "/task/*/ns/*") {
			if m := space.FindStringSubmatch(link); m != nil {
				note(m[1], link)
			}
		}
		for _, fd := range glob(p + "/fd/*") {
			if kind, name := spaceOf(fd); kind != "" {
				note(kind, name)
			}
		}
		own, _ := os.Readlink(p + "/ns/mnt")
		if seen[own] {
			continue
		}
		seen[own] = true
		for _, m := range lines(read(p + "/mountinfo")) {
			if s := nsfs.FindStringSubmatch(m); s != nil {
				note(s[1], strings.TrimSpace(s[0]))
			}
			r.mounts = append(r.mounts, own+" "+unchanged.ReplaceAllString(m, ""))
		}
	}
	return r
}

// spaceKinds are what NS_GET_NSTYPE tells (linux/nsfs.h).
var spaceKinds = map[int]string{
	unix.CLONE_NEWNET: "net", unix.CLONE_NEWNS: "mnt", unix.CLONE_NEWUTS: "uts", unix.CLONE_NEWIPC: "ipc",
	unix.CLONE_NEWPID: "pid", unix.CLONE_NEWUSER: "user", unix.CLONE_NEWCGROUP: "cgroup", unix.CLONE_NEWTIME: "time",
}

// spaceOf returns the kind and the name of the namespace that a descriptor keeps, if it is one. The
// link of such a descriptor may be the path by which it was opened.
func spaceOf(fd string) (kind, name string) {
	to, err := os.Readlink(fd)
	if err != nil || !strings.HasPrefix(to, "/") && space.FindStringSubmatch(to) == nil {
		return "", ""
	}
	var where unix.Statfs_t
	if unix.Statfs(fd, &where) != nil || where.Type != unix.NSFS_MAGIC {
		return "", ""
	}
	f, err := os.Open(fd)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	const getType = 0xb703
	number, err := unix.IoctlRetInt(int(f.Fd()), getType)
	var stat unix.Stat_t
	if err != nil || unix.Fstat(int(f.Fd()), &stat) != nil {
		return "", ""
	}
	return spaceKinds[number], fmt.Sprintf("%s:[%d]", spaceKinds[number], stat.Ino)
}

// namespaces returns those of some kinds that a process is in, or that a descriptor or a mount keeps.
func (r running) namespaces(kinds ...string) (all []string) {
	for _, kind := range kinds {
		for name := range r.spaces[kind] {
			all = append(all, name)
		}
	}
	return all
}

// objects counts the kernel's BPF programs, maps or links.
func objects(t *testing.T, command uintptr) (n int) {
	t.Helper()
	attr := make([]byte, 12)
	for {
		_, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)))
		if errno == unix.ENOENT {
			return n
		}
		if errno != 0 {
			t.Fatalf("bpf(%d): %v", command, errno)
		}
		n++
		copy(attr, attr[4:8])
		binary.NativeEndian.PutUint32(attr[4:], 0)
	}
}

func mounts(process string) (all []string) {
	for _, m := range lines(read(process + "/mountinfo")) {
		all = append(all, unchanged.ReplaceAllString(m, ""))
	}
	return all
}

// below returns the files of a file system, without what each run has for itself.
func below(root string) (all []string) {
	filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it is gone
		case path == "/run/vm", path == "/run/udev/tags", path == "/run/udev/links", path == "/dev/pts", path == tempFolder, filepath.Ext(path) == ".pid":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.IsDir() || path == root:
			all = append(all, path)
		default:
			all = append(all, path+"/")
		}
		return nil
	})
	return all
}

func folders(root string) (all []string) {
	filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func pidOf(daemon string) string {
	return "/proc/" + strings.TrimSpace(read("/run/"+daemon+".pid"))
}

func links(pattern string) (all []string) {
	for _, path := range glob(pattern) {
		if to, err := os.Readlink(path); err == nil {
			all = append(all, to)
		}
	}
	return all
}

func glob(pattern string) []string {
	all, _ := filepath.Glob(pattern) // the patterns are right
	return all
}

func read(path string) string {
	text, _ := os.ReadFile(path) // what is gone has nothing
	return string(text)
}

func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// field returns the first number behind a word at the begin of a line.
func field(path, word string) int64 {
	for line := range strings.Lines(read(path)) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return first(rest)
		}
	}
	return -1
}

func first(text string) int64 {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return -1
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n
}
