package bpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// instruction is struct bpf_insn on a little-endian machine.
type instruction struct {
	code      byte
	registers byte // the destination in the lower half, the source in the upper
	offset    int16
	immediate int32
}

// Registers: r0 is what a call returns, r1 to r5 what it is given, and r6 to r9
// what it leaves; frame is the end of the stack.
const (
	r0    = 0
	r1    = 1
	r2    = 2
	r3    = 3
	r4    = 4
	r6    = 6
	r7    = 7
	frame = 10
)

// line is an instruction, its name if others jump to it, and where it jumps to itself.
type line struct {
	instruction
	name, to string
}

func (l line) named(name string) line {
	l.name = name
	return l
}

func plain(code, to, from byte, offset int16, immediate int32) line {
	return line{instruction: instruction{code, to | from<<4, offset, immediate}}
}

func copied(to, from byte) line {
	return plain(unix.BPF_ALU64|unix.BPF_MOV|unix.BPF_X, to, from, 0, 0)
}

func set(to byte, value int32) line {
	return plain(unix.BPF_ALU64|unix.BPF_MOV|unix.BPF_K, to, 0, 0, value)
}

func computed(operation, to byte, value int32) line {
	return plain(unix.BPF_ALU64|operation|unix.BPF_K, to, 0, 0, value)
}

func loaded(size, to, from byte, offset int16) line {
	return plain(unix.BPF_LDX|unix.BPF_MEM|size, to, from, offset, 0)
}

func stored(size, at byte, offset int16, from byte) line {
	return plain(unix.BPF_STX|unix.BPF_MEM|size, at, from, offset, 0)
}

// mapOf returns the first half of an instruction of double length; the other is empty.
func mapOf(to byte, m object) line {
	return plain(unix.BPF_LD|unix.BPF_IMM|unix.BPF_DW, to, unix.BPF_PSEUDO_MAP_FD, 0, int32(m))
}

func called(helper int32) line { return plain(unix.BPF_JMP|unix.BPF_CALL, 0, 0, 0, helper) }

func exit() line { return plain(unix.BPF_JMP|unix.BPF_EXIT, 0, 0, 0, 0) }

func jump(test, register byte, value int32, to string) line {
	l := plain(unix.BPF_JMP|test|unix.BPF_K, register, 0, 0, value)
	l.to = to
	return l
}

func jumpIfSame(a, b byte, to string) line {
	l := plain(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_X, a, b, 0, 0)
	l.to = to
	return l
}

// assemble gives jumps, which go forward from the instruction after them, their lengths.
func assemble(lines []line) ([]instruction, error) {
	at := map[string]int{}
	for n, l := range lines {
		if l.name != "" {
			at[l.name] = n
		}
	}
	code := make([]instruction, len(lines))
	for n, l := range lines {
		if l.to != "" {
			there, known := at[l.to]
			if !known {
				return nil, fmt.Errorf("assemble a program: nothing is named %s", l.to)
			}
			l.offset = int16(there - n - 1)
		}
		code[n] = l.instruction
	}
	return code, nil
}
