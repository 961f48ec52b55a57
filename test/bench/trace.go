package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// kinds are what a sampled program may be at, by a function of the kernel that is on its stack: the first that fits.
// The names are those of Linux 6.1.
var kinds = []struct {
	name string
	by   []string
}{
	{"page faults", []string{"asm_exc_page_fault"}},
	{"programs and threads begin and end", []string{"__x64_sys_execve", "do_exit", "__x64_sys_exit_group", "__x64_sys_clone", "__x64_sys_clone3", "__x64_sys_vfork", "ret_from_fork", "__x64_sys_wait4", "__x64_sys_waitid", "__x64_sys_mmap", "__x64_sys_munmap", "__x64_sys_rt_sigaction", "__x64_sys_rt_sigprocmask", "__x64_sys_madvise", "load_elf_binary", "do_group_exit"}},
	{"threads wait and wake", []string{"__x64_sys_futex", "__x64_sys_epoll_pwait", "__x64_sys_nanosleep", "__x64_sys_sched_yield", "__x64_sys_poll", "__x64_sys_ppoll", "__x64_sys_tgkill"}},
	{"moves of interfaces", []string{"do_setlink"}},
	{"RDMA over netlink", []string{"rdma_nl_rcv"}},
	{"addresses, routes and other netlink", []string{"netlink_sendmsg", "netlink_recvmsg", "__x64_sys_socket", "__x64_sys_bind", "__x64_sys_recvfrom", "__x64_sys_sendto", "__x64_sys_recvmsg", "__x64_sys_sendmsg", "__x64_sys_setsockopt", "sock_close"}},
	{"namespaces and mounts", []string{"__x64_sys_unshare", "__x64_sys_setns", "__x64_sys_mount", "__x64_sys_umount", "__x64_sys_mount_setattr", "__x64_sys_open_tree", "__x64_sys_move_mount", "__x64_sys_fsopen", "__x64_sys_fsmount", "__x64_sys_fsconfig"}},
	{"writes: notes, claims, device nodes", []string{"__x64_sys_mkdirat", "__x64_sys_mknodat", "__x64_sys_unlinkat", "__x64_sys_renameat", "__x64_sys_renameat2", "__x64_sys_write", "__x64_sys_pwrite64", "__x64_sys_fchmod", "__x64_sys_fchmodat", "__x64_sys_fchownat", "__x64_sys_fchown", "__x64_sys_flock", "__x64_sys_symlinkat", "__x64_sys_linkat", "__x64_sys_ftruncate"}},
	{"reads: /sys, /proc, files", []string{"__x64_sys_openat", "__x64_sys_openat2", "__x64_sys_read", "__x64_sys_pread64", "__x64_sys_readlinkat", "__x64_sys_getdents64", "__x64_sys_newfstatat", "__x64_sys_fstat", "__x64_sys_statx", "__x64_sys_close", "__x64_sys_fcntl", "__x64_sys_fstatfs", "__x64_sys_faccessat2", "__x64_sys_lseek"}},
}

const (
	own  = "its own code"
	rest = "other of the kernel's"
)

// trace is how many samples of each kind a program has, and how often it was started.
type trace struct {
	samples map[string]map[string]int
	starts  map[string]int
}

// readTrace reads what perf script prints with --show-task-events and the fields comm, tid, ip and sym.
func readTrace(text io.Reader) (trace, error) {
	t := trace{map[string]map[string]int{}, map[string]int{}}
	program, stack := "", []string(nil)
	end := func() {
		if program == "" {
			return
		}
		if t.samples[program] == nil {
			t.samples[program] = map[string]int{}
		}
		t.samples[program][kindOf(stack)]++
		program, stack = "", nil
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			end()
		case strings.Contains(line, "PERF_RECORD_"):
			if _, started, is := strings.Cut(line, "PERF_RECORD_COMM exec: "); is {
				name, _, _ := strings.Cut(started, ":")
				t.starts[name]++
			}
		case line[0] == ' ' || line[0] == '\t':
			if len(words) > 1 && strings.HasPrefix(words[0], "ffff") { // the kernel's half of the addresses
				stack = append(stack, words[1])
			}
		default:
			end()
			program = strings.Join(words[:len(words)-1], " ")
		}
	}
	end()
	return t, lines.Err()
}

// kindOf says what a program with such a stack in the kernel is at.
func kindOf(stack []string) string {
	if len(stack) == 0 {
		return own
	}
	for _, k := range kinds {
		if slices.ContainsFunc(stack, func(name string) bool { return slices.Contains(k.by, name) }) {
			return k.name
		}
	}
	return rest
}

// traceCommand prints what a case's programs spent their time on.
func traceCommand(args []string) error {
	f := flag.NewFlagSet("trace", flag.ContinueOnError)
	hertz := f.Float64("hertz", 10000, "how often perf took a sample")
	if err := arguments(f, args, 3); err != nil {
		return err
	}
	r, err := readResults(f.Arg(1))
	if err != nil {
		return err
	}
	file, err := os.Open(f.Arg(2))
	if err != nil {
		return err
	}
	defer file.Close()
	t, err := readTrace(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Arg(2), err)
	}
	fmt.Print(t.table(f.Arg(0), r.of(f.Arg(0)), *hertz))
	return nil
}

// shell returns how many ms the shell takes that starts the floor under the name of its way.
func (t trace) shell(hertz float64) (ms float64) {
	for _, n := range t.samples["floor"] {
		ms += float64(n) / hertz * 1000 / float64(max(t.starts["floor"], 1))
	}
	return ms
}

// table returns in ms what each start of a program spends on each kind, and what all takes of one of a case's jobs. The
// RDMA moves that gresnet-prolog leaves behind are another program.
func (t trace) table(name string, m measured, hertz float64) string {
	floor := []string{"floor-in", "floor-out"}
	if m.HCAs == 0 {
		floor = []string{"floor-none", "floor-none"}
	}
	programs := []string{floor[0], "gresnet-prolog", floor[1], "gresnet-epilog"}
	var took [4]float64
	for i, of := range []string{"floor in", "gresnet in", "floor out", "gresnet out"} {
		tool, way, _ := strings.Cut(of, " ")
		took[i], _ = m.median(tool, way)
		took[i] /= float64(max(m.Jobs, 1))
		if tool == "floor" {
			took[i] -= t.shell(hertz)
		}
	}
	var s strings.Builder
	row := func(name string, values ...float64) {
		fmt.Fprintf(&s, "| %s", name)
		for _, v := range values {
			fmt.Fprintf(&s, " | %.1f", v)
		}
		s.WriteString(" |\n")
	}
	fmt.Fprintf(&s, "| %s, ms | floor in | prolog | floor out | epilog |\n| --- | --- | --- | --- | --- |\n", name)
	left := slices.Clone(took[:])
	names := []string{own}
	for _, k := range kinds {
		names = append(names, k.name)
	}
	for _, kind := range append(names, rest) {
		var values []float64
		for i, program := range programs {
			ms := float64(t.samples[program][kind]) / hertz * 1000 / float64(max(t.starts[program], 1))
			values = append(values, ms)
			left[i] -= ms
		}
		row(kind, values...)
	}
	row("other programs, and waits", left...)
	row("all", took[:]...)
	return s.String()
}
