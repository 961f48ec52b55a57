package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
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

// instructions decide whether a process may open a device: 1 if it may. What the
// map lacks it does not judge. Of what is in the map it denies the opening alone:
// to make a node takes more than any job's user has. A user namespace's root is
// not root to bpf_get_current_uid_gid.
func instructions(devices *ebpf.Map) asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R1, asm.R6, contextAccess, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.And.Imm(asm.R2, typeMask),
		asm.JNE.Imm(asm.R2, typeChar, "allow"),
		asm.RSh.Imm(asm.R1, whichBits),
		asm.And.Imm(asm.R1, opening),
		asm.JEq.Imm(asm.R1, 0, "allow"),

		asm.LoadMem(asm.R2, asm.R6, contextMajor, asm.Word),
		asm.StoreMem(asm.RFP, -8, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.R6, contextMinor, asm.Word),
		asm.StoreMem(asm.RFP, -4, asm.R2, asm.Word),
		asm.LoadMapPtr(asm.R1, devices.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -8),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "allow"),
		asm.LoadMem(asm.R7, asm.R0, 0, asm.DWord), // entry.Cgroup

		asm.FnGetCurrentUidGid.Call(),
		asm.LSh.Imm(asm.R0, 32), // the user is the lower half
		asm.JEq.Imm(asm.R0, 0, "allow"),
		asm.JEq.Imm(asm.R7, nobody, "deny"),
		asm.JEq.Imm(asm.R7, -1, "allow"), // anybody
	}
	for level := int32(1); level <= deepest; level++ {
		ins = append(ins,
			asm.Mov.Imm(asm.R1, level),
			asm.FnGetCurrentAncestorCgroupId.Call(), // 0 where there is none so deep
			asm.JEq.Reg(asm.R0, asm.R7, "allow"))
	}
	return append(ins,
		asm.Mov.Imm(asm.R0, 0).WithSymbol("deny"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("allow"),
		asm.Return())
}
