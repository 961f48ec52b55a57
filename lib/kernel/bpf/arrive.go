package bpf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// NewArrival loads a traffic filter that has all frames arrive by another interface, as if they had come from
// its network.
func NewArrival(index int) (*os.File, error) {
	const redirect, ingress = 23, 1 // bpf_redirect, BPF_F_INGRESS
	code, err := assemble([]line{set(r1, int32(index)), set(r2, ingress), called(redirect), exit()})
	if err != nil {
		return nil, err
	}
	p, err := load(unix.BPF_PROG_TYPE_SCHED_CLS, code)
	if err != nil {
		return nil, hint.With(fmt.Errorf("load a filter that has frames arrive elsewhere: %w", err), "GN832 the kernel must have CONFIG_BPF_SYSCALL")
	}
	return os.NewFile(uintptr(p), "BPF program"), nil
}
