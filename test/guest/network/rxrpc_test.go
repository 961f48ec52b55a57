package network

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// byRXRPC calls addresses by AF_RXRPC, beneath which the kernel makes a socket of UDP that has no file, and so
// no user (rxrpc(7), linux/rxrpc.h). It holds its calls until it is killed.
const byRXRPC = `import ctypes, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
s = socket.socket(33, socket.SOCK_DGRAM, socket.AF_INET)
class Message(ctypes.Structure):
	_fields_ = [("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("iov", ctypes.c_void_p), ("iovlen", ctypes.c_size_t),
		("control", ctypes.c_char_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int)]
class Vector(ctypes.Structure):
	_fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]
def call(number, address):
	to = struct.pack("=HHHH", 33, 1, socket.SOCK_DGRAM, 16) + struct.pack("=HH4s8x", socket.AF_INET, socket.htons(7779), socket.inet_aton(address)) + bytes(12)
	said = struct.pack("=QiiQ", 24, 272, 1, number) # SOL_RXRPC, RXRPC_USER_CALL_ID
	data = Vector(b"call", 4)
	m = Message(to, len(to), ctypes.addressof(data), 1, said, len(said), 0)
	return libc.sendmsg(s.fileno(), ctypes.byref(m), 0x40) >= 0 or ctypes.get_errno() # MSG_DONTWAIT
import sys
print([a for a in map(lambda n: call(*n), enumerate(sys.argv[1:], 1)) if a is not True][:3], "sent", flush=True)
time.sleep(3600)
`

// hears says how many of its addresses were called, each time that this is one more.
const hears = `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 8, 1) # IP_PKTINFO
s.bind(("0.0.0.0", 7779))
called = set()
print("heard 0", flush=True)
while True:
	_, more, _, _ = s.recvmsg(2000, 100)
	called.add(more[0][2][8:12])
	print("heard", len(called), flush=True)`

func TestAPacketOfAFRXRPCPassesByNoRule(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Long)
	names := vm.HCAsWithGPUs(t)
	gpus := strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(vm.GPUConfig)
	vm.Run(t, "modprobe -a nf_conntrack rxrpc; mkdir -p /sys/fs/cgroup/bob")
	most := strings.TrimSpace(vm.Run(t, "cat /proc/sys/net/netfilter/nf_conntrack_max; sysctl -qw net.netfilter.nf_conntrack_max=1600"))
	const job = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0"
	vm.WriteConfig(t, gpus+"\n[uplink]\nkind = \"auto\"\n")
	var pids []string
	background := func(enter, program, arguments, file, until string) {
		pids = append(pids, strings.TrimSpace(vm.Run(t, fmt.Sprintf(
			"rm -f %[1]s; touch %[1]s; cd /tmp; %[2]s setsid python3 -c %[3]s %[4]s </dev/null >%[1]s 2>&1 & echo $!; until grep -q '%[5]s' %[1]s; do sleep 0.1; done",
			file, enter, vm.Quote(program), arguments, until))))
	}
	t.Cleanup(func() {
		vm.Run(t, "kill -9 "+strings.Join(pids, " ")+" || true; sysctl -qw net.netfilter.nf_conntrack_max="+most)
		vm.Must(t, "epilog", job)
		// The module stays: where calls were left, kernel 6.1 stops when it goes (af_rxrpc.c:af_rxrpc_exit).
		vm.Run(t, "until rmdir /sys/fs/cgroup/bob; do sleep 0.1; done 2>/dev/null")
	})
	loopback := make([]string, 130)
	for i := range loopback {
		loopback[i] = fmt.Sprintf("127.0.1.%d", i+1)
	}
	background("", hears, "", "/tmp/heard", "heard 0")
	asBob := "setpriv --reuid bob --regid bob --init-groups"
	// has waits until so many addresses were called. A packet of the job's user to another one comes after all others.
	has := func(file, to string, want int) {
		t.Helper()
		last := func() string { return strings.TrimSpace(vm.Run(t, "tail -n 1 "+file)) }
		vm.Eventually(t, fmt.Sprintf("%s has %d", file, want), func() bool { return last() == fmt.Sprintf("heard %d", want) })
		vm.Run(t, "setpriv --reuid alice --regid alice --init-groups bash -c 'echo >/dev/udp/"+to+"/7779'; until [ \"$(tail -n 1 "+file+")\" != 'heard "+fmt.Sprint(want)+"' ]; do sleep 0.1; done")
		if got := last(); got != fmt.Sprintf("heard %d", want+1) {
			t.Errorf("after one more than %d: %s; the calls: %s", want, got, vm.Run(t, "cat /tmp/called"))
		}
	}
	inBobs := "sh -c 'echo $$ >/sys/fs/cgroup/bob/cgroup.procs; exec \"$@\"' sh " + asBob
	// Without a job nothing is counted.
	background(inBobs, byRXRPC, strings.Join(loopback, " "), "/tmp/called", "sent")
	has("/tmp/heard", "127.0.3.1", 130)
	vm.Run(t, "kill -9 "+strings.Join(pids, " "))
	pids = nil

	vm.Must(t, "prolog", job)
	background("", hears, "", "/tmp/heard", "heard 0")
	background("nsenter --net=/run/gresnet/jobs/900070/netns", hears, "", "/tmp/inside", "heard 0")
	background(inBobs, byRXRPC, "198.19.0.1", "/tmp/called", "sent")
	has("/tmp/inside", "198.19.0.1", 0) // another user's job
	for i := range loopback {
		loopback[i] = fmt.Sprintf("127.0.2.%d", i+1)
	}
	background(inBobs, byRXRPC, strings.Join(loopback, " "), "/tmp/called", "sent")
	has("/tmp/heard", "127.0.3.1", 1600/16)
}
