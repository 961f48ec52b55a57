package lease

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// requestsOf reads test/floor/requests.txt: the requests of each section.
func requestsOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(vm.Repo() + "/test/floor/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, section := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "== "); is {
			section = name
		} else if line != "" {
			all[section] = append(all[section], line)
		}
	}
	return all
}

// runtimeCalls are those that the Go runtime makes for itself, whatever a program does. It reads the clock
// without the kernel, unless that takes the processor's counter for unstable, as on a busy machine.
const runtimeCalls = "!clock_gettime,futex,mmap,munmap,madvise,mprotect,brk,rt_sigaction,rt_sigprocmask,rt_sigreturn,sigaltstack," +
	"clone,clone3,gettid,getpid,tgkill,nanosleep,clock_nanosleep,sched_yield,sched_getaffinity,epoll_create1,epoll_ctl,epoll_pwait," +
	"eventfd2,fcntl,prlimit64,arch_prctl,set_tid_address,set_robust_list,rseq,getrandom,pread64,prctl,exit,exit_group,restart_syscall"

var (
	systemCall  = regexp.MustCompile(`^([0-9]+) +([a-z_0-9]+)\(`)
	messageType = regexp.MustCompile(`nlmsg_type=([A-Z_0-9a-fx]+)`)
)

// messages are names of those types that strace may not know: it looks a socket's
// family up in its own namespace, and has no table for RDMA.
var messages = map[string]string{
	"0x10": "RTM_NEWLINK", "0x14": "RTM_NEWADDR", "0x18": "RTM_NEWROUTE", "0x1402": "RDMA_NLDEV_CMD_SET",
}

// floorRequests returns the requests that strace saw, as requests.txt has them, from
// the one on that reads the floor's input: those of each thread together, because
// nobody knows how two threads' are among each other.
func floorRequests(log, input string) []string {
	opened, read := false, false
	var threads []string
	of := map[string][]string{}
	for line := range strings.Lines(log) {
		call := systemCall.FindStringSubmatch(line)
		if call == nil {
			continue
		}
		if !read {
			opened = opened || strings.Contains(line, `"`+input+`"`) && call[2] == "openat"
			read = opened && call[2] == "read"
			continue
		}
		thread, request := call[1], call[2]
		if m := messageType.FindStringSubmatch(line); m != nil && request == "sendto" {
			kind := m[1]
			if name, known := messages[kind]; known {
				kind = name
			}
			request += " " + kind
		}
		if strings.Contains(line, "NETLINK_RDMA") && request == "socket" {
			request += " RDMA"
		}
		if of[thread] == nil {
			threads = append(threads, thread)
		}
		of[thread] = append(of[thread], request)
	}
	var requests []string
	for _, thread := range threads {
		requests = append(requests, of[thread]...)
	}
	return requests
}

// linkOf returns the network interface of an HCA.
func linkOf(t *testing.T, hca string) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, `for i in /sys/class/net/*; do
		[ "$(readlink -f $i/device)" != "$(readlink -f /sys/class/infiniband/`+hca+`/device)" ] || basename $i
	done`))
}

// makesInside tells whether the kernel makes IPoIB's interfaces in the namespace of their
// RDMA device; up to 6.16 it makes them in the node's.
func makesInside() bool {
	_, err := vm.Try(`printf '%s\n' 6.17 "$(uname -r)" | sort -CV`)
	return err == nil
}

func TestTheFloorSendsTheRequestsOfItsListAndNoOther(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	nodeMode := vm.Mode(t)
	for _, h := range []struct{ kind, rdma, link string }{{"roce", "ibfake2", linkOf(t, "ibfake2")}, {"ib", "ibfake0", linkOf(t, "ibfake0")}} {
		if h.kind == "ib" && nodeMode == "shared" {
			continue // the same requests as RoCE's: nothing is made again
		}
		t.Run(h.kind, func(t *testing.T) {
			// Other tests may have dressed it.
			vm.Run(t, "ip addr flush dev "+h.link+"; ip link set "+h.link+" down; ip link set "+h.link+" up; ip addr add 10.77.0.2/24 dev "+h.link+"; ip route add 172.17.0.0/24 via 10.77.0.1 dev "+h.link)
			t.Cleanup(func() { vm.Run(t, "ip addr flush dev "+h.link+"; "+vm.GiveAddresses) })
			before := vm.Picture(t)
			dir := t.TempDir()
			input := filepath.Join(dir, "input")
			vm.Run(t, fmt.Sprintf("%s/bin/bench dump -mode %s -kind %s %s %s %s %s", vm.Repo(), nodeMode, h.kind, dir, input, h.rdma, h.link))
			for _, way := range []string{"in", "out"} {
				vm.Run(t, fmt.Sprintf("strace -f -qq -s 200 -e signal=none -e trace='%s' -o %s/log %s/bin/floor %s %s", runtimeCalls, dir, vm.Repo(), way, input))
				log, err := os.ReadFile(dir + "/log")
				if err != nil {
					t.Fatal(err)
				}
				section := nodeMode + " " + h.kind + " " + way
				if section == "exclusive ib in" && makesInside() {
					section += ", made in the job"
				}
				if got, want := floorRequests(string(log), input), requestsOf(t)[section]; !slices.Equal(got, want) || len(want) == 0 {
					t.Errorf("%s: the floor's requests are\n%s\nthe list has\n%s\nstrace\n%s", section, strings.Join(got, "\n"), strings.Join(want, "\n"), log)
				}
				if way == "in" {
					has := vm.Run(t, "nsenter --net="+dir+"/netns ip -4 -br addr show dev "+h.link)
					if !strings.Contains(has, "10.77.0.2/24") {
						t.Errorf("the job has %q", has)
					}
				}
			}
			vm.Run(t, "udevadm settle; chmod 600 /dev/infiniband/uverbs*")
			vm.Same(t, before)
		})
	}
}
