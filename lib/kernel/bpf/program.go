package bpf

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// struct bpf_cgroup_dev_ctx, and what its access_type is made of (uapi/linux/bpf.h).
const (
	contextAccess = 0
	contextMajor  = 4
	contextMinor  = 8

	typeMask  = 0xffff
	typeChar  = 2 // BPF_DEVCG_DEV_CHAR
	opening   = 6 // BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE
	whichBits = 16
)

// deepest is how far below the root a job's cgroup may be: three under systemd
// on a node, nine in a container of a pod.
const deepest = 15

// Helpers, by their numbers (uapi/linux/bpf.h:___BPF_FUNC_MAPPER).
const (
	mapLookupElem              = 1
	getCurrentUIDGID           = 15
	skbLoadBytes               = 26
	getCurrentAncestorCgroupID = 123
)

// newProgram loads the guard of the devices in a map. Some of them may have sharers.
func newProgram(devices, sharers object) (object, error) {
	code, err := assemble(lines(devices, sharers))
	if err != nil {
		return 0, err
	}
	p, err := load(unix.BPF_PROG_TYPE_CGROUP_DEVICE, code)
	if err != nil {
		return 0, hint.With(fmt.Errorf("load a program: %w", err), "GN055 the kernel must be 6.1 or later, with CONFIG_CGROUP_BPF")
	}
	return p, nil
}

// load loads a program of a kind.
func load(kind uint32, code []instruction) (object, error) { return loadAs(kind, code, "Apache-2.0") }

func loadAs(kind uint32, code []instruction, under string) (object, error) {
	license, err := unix.BytePtrFromString(under)
	if err != nil {
		return 0, err
	}
	return call(unix.BPF_PROG_LOAD, &struct {
		kind, count      uint32
		code             *instruction
		license          *byte
		logLevel, logLen uint32
		log              *byte
		version, flags   uint32
		name             name
		ifindex, attach  uint32 // 0: programs of these kinds are not told apart by it
	}{
		kind: kind, count: uint32(len(code)), code: &code[0], license: license, name: gresnet(),
	})
}

// lines decide whether a process may open a device: 1 if it may. What the map lacks they
// do not judge. Of what is in the map they deny the opening alone: to make a node takes
// more than any job's user has. A user namespace's root is not root to
// bpf_get_current_uid_gid.
func lines(devices, sharers object) []line {
	list := []line{
		copied(r6, r1),
		loaded(unix.BPF_W, r1, r6, contextAccess),
		copied(r2, r1),
		computed(unix.BPF_AND, r2, typeMask),
		jump(unix.BPF_JNE, r2, typeChar, "allow"),
		computed(unix.BPF_RSH, r1, whichBits),
		computed(unix.BPF_AND, r1, opening),
		jump(unix.BPF_JEQ, r1, 0, "allow"),

		loaded(unix.BPF_W, r2, r6, contextMajor),
		stored(unix.BPF_W, frame, -8, r2),
		loaded(unix.BPF_W, r2, r6, contextMinor),
		stored(unix.BPF_W, frame, -4, r2),
		mapOf(r1, devices), {},
		copied(r2, frame),
		computed(unix.BPF_ADD, r2, -8),
		called(mapLookupElem),
		jump(unix.BPF_JEQ, r0, 0, "allow"),
		loaded(unix.BPF_DW, r7, r0, 0), // entry.Cgroup

		called(getCurrentUIDGID),
		computed(unix.BPF_LSH, r0, 32), // the user is the lower half
		jump(unix.BPF_JEQ, r0, 0, "allow"),
		jump(unix.BPF_JEQ, r7, nobody, "deny"),
		jump(unix.BPF_JEQ, r7, -1, "allow"), // anybody
	}
	if sharers != none {
		list = append(list, jump(unix.BPF_JNE, r7, -2, "one")) // several
		list = append(list, sharing(sharers)...)
	}
	for level := int32(1); level <= deepest; level++ {
		first := set(r1, level)
		if level == 1 {
			first = first.named("one")
		}
		list = append(list,
			first,
			called(getCurrentAncestorCgroupID), // 0 where there is none so deep
			jumpIfSame(r0, r7, "allow"))
	}
	return append(list,
		set(r0, 0).named("deny"),
		exit(),
		set(r0, 1).named("allow"),
		exit())
}

// sharing allows a device to the processes of all cgroups that a map of sharers has for it, and to no
// others.
func sharing(sharers object) []line {
	look := []line{
		mapOf(r1, sharers), {},
		copied(r2, frame),
		computed(unix.BPF_ADD, r2, -24),
		called(mapLookupElem),
		jump(unix.BPF_JNE, r0, 0, "allow"),
	}
	list := append([]line{
		loaded(unix.BPF_DW, r1, frame, -8), // the device
		stored(unix.BPF_DW, frame, -24, r1),
		set(r1, -1),
		stored(unix.BPF_DW, frame, -16, r1),
	}, look...)
	for level := int32(1); level <= deepest; level++ {
		list = append(list,
			set(r1, level),
			called(getCurrentAncestorCgroupID),
			jump(unix.BPF_JEQ, r0, 0, "deny"),
			stored(unix.BPF_DW, frame, -16, r0))
		list = append(list, look...)
	}
	return append(list, jump(unix.BPF_JEQ, r7, -2, "deny"))
}
