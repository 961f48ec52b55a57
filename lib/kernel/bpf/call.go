package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The few calls of bpf(2) that a guard takes. A library for all of them would be three in
// ten of the packages that a prolog has to begin with, whether the job has an HCA or not.

// object is a map, a program or a link, by its file descriptor.
type object int

func (o object) Close() error { return unix.Close(int(o)) }

// call does a command with the part of union bpf_attr (uapi/linux/bpf.h) that it reads:
// what a kernel has beyond is zero to it (kernel/bpf/syscall.c:__sys_bpf). It is the
// descriptor of what is made or opened, and else 0.
func call[T any](command uintptr, attr *T) (object, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		switch errno {
		case 0:
			return object(n), nil
		case unix.EINTR, unix.EAGAIN:
			continue // the verifier gives way to a signal (kernel/bpf/verifier.c:do_check)
		case unix.EPERM:
			if makes := command == unix.BPF_MAP_CREATE || command == unix.BPF_PROG_LOAD; makes && unlimit() {
				continue
			}
		}
		return 0, errno
	}
}

// unlimit takes this process's limit of locked memory away, and tells whether it had one. Before Linux 5.11 maps and
// programs count as locked memory (kernel/bpf/syscall.c:bpf_charge_memlock), and slurmd may have a limit of 64 KiB.
func unlimit() bool {
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &had); err != nil || had.Cur == unix.RLIM_INFINITY {
		return false
	}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}) == nil
}

// name is an object's, for bpftool.
type name [unix.BPF_OBJ_NAME_LEN]byte

func gresnet() name { return name{'g', 'r', 'e', 's', 'n', 'e', 't'} }

// pinned is the attribute of BPF_OBJ_PIN and BPF_OBJ_GET.
type pinned struct {
	path *byte
	fd   uint32
	//lint:ignore U1000 the kernel reads it, and must find zero
	flags uint32
}

// pin keeps an object under a path of a BPF file system.
func (o object) pin(path string) error {
	text, err := unix.BytePtrFromString(path)
	if err == nil {
		_, err = call(unix.BPF_OBJ_PIN, &pinned{path: text, fd: uint32(o)})
	}
	return at("pin", path, err)
}

// openPin opens what is pinned under a path.
func openPin(path string) (object, error) {
	text, err := unix.BytePtrFromString(path)
	if err != nil {
		return 0, at("open", path, err)
	}
	o, err := call(unix.BPF_OBJ_GET, &pinned{path: text})
	return o, at("open", path, err)
}

func at(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// newLink attaches a device program to a cgroup for as long as the link is open or
// pinned. Links imply BPF_F_ALLOW_MULTI (kernel/bpf/cgroup.c:cgroup_bpf_link_attach).
func newLink(program object, cgroup int) (object, error) {
	return call(unix.BPF_LINK_CREATE, &struct{ program, target, attach, flags uint32 }{
		uint32(program), uint32(cgroup), unix.BPF_CGROUP_DEVICE, 0,
	})
}

// update gives a link another program, at once for the whole cgroup tree. It fails with ENOLINK if the
// link is detached.
func (o object) update(program object) error {
	_, err := call(unix.BPF_LINK_UPDATE, &struct{ link, program, flags, old uint32 }{uint32(o), uint32(program), 0, 0})
	return err
}

// detach ends a link at once, whoever has it open.
func (o object) detach() error {
	_, err := call(unix.BPF_LINK_DETACH, &struct{ link uint32 }{uint32(o)})
	return err
}

// newMap makes a map with keys of type K and values of type V.
func newMap[K, V any]() (object, error) {
	var key K
	var value V
	m, err := call(unix.BPF_MAP_CREATE, &struct {
		kind, key, value, entries, flags, inner, node uint32
		name                                          name
	}{
		kind: unix.BPF_MAP_TYPE_HASH, name: gresnet(), entries: most,
		key: uint32(unsafe.Sizeof(key)), value: uint32(unsafe.Sizeof(value)),
	})
	if err != nil {
		return 0, fmt.Errorf("make a map: %w", err)
	}
	return m, nil
}

// element is the attribute of what is done to one of a map.
type element struct {
	in    uint32
	_     uint32
	key   unsafe.Pointer
	value unsafe.Pointer // or the next key
}

func put[K, V any](m object, k K, v V) error {
	_, err := call(unix.BPF_MAP_UPDATE_ELEM, &element{in: uint32(m), key: unsafe.Pointer(&k), value: unsafe.Pointer(&v)})
	return err
}

func get[K, V any](m object, k K) (v V, err error) {
	_, err = call(unix.BPF_MAP_LOOKUP_ELEM, &element{in: uint32(m), key: unsafe.Pointer(&k), value: unsafe.Pointer(&v)})
	return v, err
}

func remove[K any](m object, k K) error {
	_, err := call(unix.BPF_MAP_DELETE_ELEM, &element{in: uint32(m), key: unsafe.Pointer(&k)})
	return err
}

// keys returns those of a map. One that the plugin writes meanwhile may be there twice,
// and hide another (kernel/bpf/hashtab.c:htab_map_get_next_key).
func keys[K any](m object) (list []K, err error) {
	var last *K
	for len(list) < 2*most {
		next, err := next(m, last)
		if errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return nil, err
		}
		list, last = append(list, next), &next
	}
	return list, nil
}

// next returns the key after another, or the first; behind the last it is ENOENT.
func next[K any](m object, after *K) (k K, err error) {
	_, err = call(unix.BPF_MAP_GET_NEXT_KEY, &element{in: uint32(m), key: unsafe.Pointer(after), value: unsafe.Pointer(&k)})
	return k, err
}
