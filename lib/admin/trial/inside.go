package trial

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/rdma"
)

// The users of the trial, who own nothing on a node: the job's, and one who has no business with the job.
const (
	jobUser   = 2147480001
	otherUser = 2147480002
)

// sight is what a process sees of HCAs in its namespaces.
type sight struct {
	Devices []string            // RDMA devices
	GIDs    map[string][]string // by RDMA device
	Links   map[string]*link    // by the interface's name
	Nodes   map[string]*charDev // uverbs devices by name; only a look from a lease has them
}

// link is a network interface.
type link struct {
	Hardware, Carrier bool
	Addresses         []string
}

// charDev is a uverbs device.
type charDev struct {
	Of       string // RDMA device
	Refused  string // why the job's user cannot open it; empty: that user can
	Foreign  bool   // another user can
	Verbs    string // what the kernel said to the job's user
	NotAsked string // why it could not be asked
}

// see looks from the calling process's namespaces.
func see() sight {
	s := sight{GIDs: map[string][]string{}, Links: map[string]*link{}, Nodes: map[string]*charDev{}}
	for _, path := range glob("/sys/class/infiniband/*") {
		s.Devices = append(s.Devices, filepath.Base(path))
	}
	for _, path := range glob("/sys/class/infiniband/*/ports/*/gids/*") {
		name := strings.Split(path, "/")[4]
		if gid := read(path); strings.Trim(gid, "0:") != "" && gid != "fe80:0000:0000:0000:0000:0000:0000:0000" {
			s.GIDs[name] = append(s.GIDs[name], gid)
		}
	}
	interfaces, _ := net.Interfaces() // who sees none lacks those that are looked for
	for _, i := range interfaces {
		_, err := os.Stat("/sys/class/net/" + i.Name + "/device")
		l := &link{Hardware: err == nil, Carrier: hasCarrier(i.Name)}
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			l.Addresses = append(l.Addresses, a.String())
		}
		s.Links[i.Name] = l
	}
	return s
}

func hasCarrier(name string) bool { return read("/sys/class/net/"+name+"/carrier") == "1" }

func read(path string) string {
	text, _ := os.ReadFile(path) // what does not read is not there
	return strings.TrimSpace(string(text))
}

func glob(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // the patterns are well-formed
	return paths
}

// place is where a task has the device nodes of its job.
const place = "/dev/infiniband"

// enter makes the process a task of the job: in its cgroup, with its device nodes and a /sys of its own. The
// process is in a mount namespace of its own, and in the job's network namespace.
func enter(devices, cgroup string) error {
	if cgroup != "" {
		if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter the job's cgroup: %w", err)
		}
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE}, {devices, place, "", unix.MS_BIND}, {"sysfs", "/sys", "sysfs", 0}} {
		err := unix.Mount(m.from, m.to, m.kind, m.flags, "")
		if m.kind != "" && errors.Is(err, unix.EBUSY) {
			err = nil // it is this namespace's already
		}
		if err != nil {
			return fmt.Errorf("mount %s over %s: %w", m.from, m.to, err)
		}
	}
	return nil
}

// seeInLease looks as a task of the job.
func seeInLease(devices, cgroup string) (sight, error) {
	if err := enter(devices, cgroup); err != nil {
		return sight{}, err
	}
	s := see()
	for _, path := range glob(place + "/uverbs*") {
		c := &charDev{Of: read("/sys/class/infiniband_verbs/" + filepath.Base(path) + "/ibdev")}
		s.Nodes[filepath.Base(path)] = c
		ports := len(glob("/sys/class/infiniband/" + c.Of + "/ports/*"))
		as(jobUser, func() { c.ask(path, ports) })
		as(otherUser, func() {
			d, err := rdma.OpenVerbs(path)
			if c.Foreign = err == nil; c.Foreign {
				d.Close()
			}
		})
	}
	return s, nil
}

// ask opens the device, and asks of its ports.
func (c *charDev) ask(path string, ports int) {
	d, err := rdma.OpenVerbs(path)
	if err != nil {
		c.Refused = err.Error()
		return
	}
	defer d.Close()
	driver, err := d.Context()
	active := 0
	for port := 1; err == nil && port <= ports; port++ {
		var is bool
		if is, err = d.IsActive(driver, uint32(port)); is {
			active++
		}
	}
	if err != nil {
		c.NotAsked = err.Error()
		return
	}
	c.Verbs = fmt.Sprintf("context, %d of %d ports active", active, ports)
}

// as calls f as a user without any right of root's, on a thread that ends with it.
func as(uid uintptr, f func()) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		defer close(done)
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, uid, uid, uid}, {unix.SYS_SETRESUID, uid, uid, uid}} {
			if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				panic(errno) // root can
			}
		}
		f()
	}()
	<-done
}

// judge finds what is not as it must be of an HCA in the job.
func (h *hca) judge(in sight, group []*hca, exclusive bool) {
	own := func(name string) bool {
		return slices.ContainsFunc(group, func(o *hca) bool { return o.Name == name || slices.Contains(o.interfaces, name) })
	}
	if !slices.Contains(in.Devices, h.Name) {
		h.fault("inside: RDMA device %s is not there", h.Name)
	}
	for _, name := range in.Devices {
		if exclusive && !own(name) {
			h.fault("inside: RDMA device %s is there, which is not the job's", name)
		}
	}
	if h.moves {
		h.judgeLinks(in, own)
	}
	nodes := 0
	for name, c := range in.Nodes {
		if c.Of != h.Name {
			continue
		}
		nodes++
		h.Verbs = c.Verbs + c.NotAsked
		if c.Refused != "" {
			h.fault("inside: the job's user cannot open %s: %s", name, c.Refused)
		}
		if c.Foreign {
			h.fault("inside: another user can open %s", name)
		}
	}
	if nodes == 0 {
		h.fault("inside: %s has no uverbs device", h.Name)
	}
}

// judgeLinks finds what interfaces lack in the job that they had on the node.
func (h *hca) judgeLinks(in sight, own func(name string) bool) {
	for name, l := range in.Links {
		if l.Hardware && !own(name) {
			h.fault("inside: interface %s is there, which is not the job's", name)
		}
	}
	for _, gid := range lacking(h.before.GIDs[h.Name], in.GIDs[h.Name]) {
		h.fault("inside: %s lacks GID %s", h.Name, gid)
	}
	for _, name := range h.interfaces {
		was, is := h.before.Links[name], in.Links[name]
		if was == nil {
			continue
		}
		if is == nil {
			h.fault("inside: interface %s is not there", name)
			continue
		}
		for _, address := range lacking(was.Addresses, is.Addresses) {
			h.fault("inside: %s lacks address %s", name, address)
		}
		if was.Carrier && !is.Carrier {
			h.fault("inside: %s has no carrier", name)
		}
	}
}

func lacking(want, have []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(have, w) })
}
