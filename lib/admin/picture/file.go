package picture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// read returns the text of a file, empty where it has none to give: a sysctl that was never
// set, or that is gone again. A picture
// reads thousands: os.ReadFile would register each with Go's poller.
func read(path string) string {
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(file)
	var text []byte
	for buffer := make([]byte, 4096); ; {
		n, err := syscall.Read(file, buffer)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return ""
		}
		if n == 0 {
			return strings.TrimSpace(string(text))
		}
		text = append(text, buffer[:n]...)
	}
}

// glob returns the files of patterns; these are ours, and so well-formed.
func glob(patterns ...string) (paths []string) {
	for _, pattern := range patterns {
		some, err := filepath.Glob(pattern)
		if err != nil {
			panic(err)
		}
		paths = append(paths, some...)
	}
	return paths
}

// sysctls returns what is set for each interface; some change by themselves.
func sysctls() (facts []string, err error) {
	for _, folder := range glob("/proc/sys/net/ipv[46]/conf/*", "/proc/sys/net/ipv[46]/neigh/*", "/proc/sys/net/mpls/conf/*") {
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			switch entry.Name() {
			case "mc_forwarding", "retrans_time", "base_reachable_time":
				continue
			}
			path := filepath.Join(folder, entry.Name())
			if value := read(path); value != "" {
				facts = append(facts, path+" "+value)
			}
		}
	}
	return facts, nil
}

// queues returns what is set for the queues of each interface.
func queues() (facts []string, err error) {
	const of = "/sys/class/net/*/"
	for _, path := range glob(of+"gro_flush_timeout", of+"napi_defer_hard_irqs", of+"queues/rx-*/rps_*", of+"queues/tx-*/xps_*") {
		facts = append(facts, path+" "+read(path))
	}
	return facts, nil
}

// nodes tell who may open the device nodes of each HCA.
func nodes() (facts []string, err error) {
	for _, path := range glob("/sys/class/infiniband_verbs/*/ibdev", "/sys/class/infiniband_mad/*/ibdev") {
		name := filepath.Base(filepath.Dir(path))
		access, err := access(name)
		if err != nil {
			return nil, err
		}
		facts = append(facts, fmt.Sprintf("node of %s %s %s", read(path), strings.TrimRight(name, "0123456789"), access))
	}
	for _, path := range glob("/sys/class/hfi1_user/*") {
		access, err := access("../" + filepath.Base(path))
		if err != nil {
			return nil, err
		}
		facts = append(facts, "node "+filepath.Base(path)+" "+access)
	}
	slices.Sort(facts)
	access, err := access("rdma_cm")
	return append(facts, "node rdma_cm "+access), err
}

func access(name string) (string, error) {
	info, err := os.Stat("/dev/infiniband/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return "missing", nil
	}
	if err != nil {
		return "", err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d:%d%s", info.Mode(), stat.Uid, stat.Gid, attributesOf("/dev/infiniband/"+name)), nil
}

// attributesOf returns the extended attributes of a device node, but for the labels that udev gives.
func attributesOf(path string) (text string) {
	names, value := make([]byte, 4096), make([]byte, 4096)
	n, _ := syscall.Listxattr(path, names)
	all := strings.FieldsFunc(string(names[:max(n, 0)]), func(r rune) bool { return r == 0 })
	slices.Sort(all)
	for _, name := range all {
		if strings.HasPrefix(name, "security.") {
			continue
		}
		n, _ := syscall.Getxattr(path, name, value)
		text += fmt.Sprintf(" %s=%x", name, value[:max(n, 0)])
	}
	return text
}

// gids returns those of each port, but for what is empty and the default prefix without an interface.
func gids() (facts []string, err error) {
	for _, path := range glob("/sys/class/infiniband/*/ports/*/gids/*") {
		switch gid := read(path); gid {
		case "", "0000:0000:0000:0000:0000:0000:0000:0000", "fe80:0000:0000:0000:0000:0000:0000:0000":
		default:
			facts = append(facts, "gid of "+filepath.Dir(filepath.Dir(path))+" "+gid)
		}
	}
	slices.Sort(facts)
	return facts, nil
}

// leases returns what gresnet itself keeps, and the namespaces and BPF objects that have a
// name. The locks of HCAs and of looks at them, of the guard and of trials stay.
func leases() (facts []string, err error) {
	for _, root := range []string{"/run/gresnet/jobs", "/run/gresnet/locks", "/run/gresnet/notices", "/run/netns", "/sys/fs/bpf"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case path != root && path != "/run/gresnet/locks/guard" && path != "/run/gresnet/locks/trial" && !strings.HasPrefix(entry.Name(), "hca-") && !strings.HasPrefix(entry.Name(), "look-"):
				facts = append(facts, "there is "+path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return facts, nil
}
