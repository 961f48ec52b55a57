package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// world is a network behind the node with one host, which knows of nothing but the node's address there.
const world = `
sysctl -qw net.ipv4.ip_forward=0
ip netns add far
ip link add far0 type veth peer name far1 netns far
ip link set far0 up
ip addr add 203.0.113.1/24 dev far0
ip -n far link set far1 up
ip -n far link set lo up
ip -n far addr add 203.0.113.2/24 dev far1
ip -n far route add default via 203.0.113.1
for in in "" "ip netns exec far"; do
	$in setsid python3 -c '
import socket
s = socket.create_server(("0.0.0.0", 7777))
while True:
	c, peer = s.accept()
	c.sendall(peer[0].encode())
	c.close()' </dev/null >/dev/null 2>&1 &
	echo $!
done
while [ $(ss -Hltn sport = :7777 | wc -l) != 1 ] || [ $(ip netns exec far ss -Hltn sport = :7777 | wc -l) != 1 ]; do sleep 0.1; done
`

const noWorld = `
ip netns del far
ip link del far0 2>/dev/null || true
`

// seenAs says as whom servers see a program, or how they are out of its reach.
const seenAs = `import errno, socket, sys
for address in sys.argv[2:]:
	try:
		print(address, socket.create_connection((address, 7777), timeout=float(sys.argv[1])).recv(99).decode())
	except TimeoutError:
		print(address, "ETIMEDOUT")
	except OSError as e:
		print(address, errno.errorcode[e.errno])
`

func TestAJobReachesWhatItsNodeReachesAndTheNodeIsAsItWas(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.HCAsWithGPUs(t)
	servers := strings.Fields(vm.Run(t, world))
	t.Cleanup(func() { vm.Run(t, "kill "+strings.Join(servers, " ")+noWorld) })
	before := vm.Picture(t)
	gpus := strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(vm.GPUConfig)
	vm.WriteConfig(t, gpus+"\n[uplink]\nkind = \"auto\"\n")
	if plan := vm.Run(t, vm.Repo()+"/bin/gresnet plan --gres nic:1"); !strings.Contains(plan, "uplink veth 198.19.0.1") {
		t.Errorf("the plan:\n%s", plan)
	}
	jobs := []string{"SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0", "SLURM_JOB_ID=900071 SLURM_JOB_GPUS=1"}
	for _, job := range jobs {
		vm.Must(t, "prolog", job)
		t.Cleanup(func() { vm.Must(t, "epilog", job) })
	}
	patience := fmt.Sprintf(" %.0f ", vm.Slow(time.Minute).Seconds())
	const program = "setpriv --reuid alice --regid alice --init-groups python3 -c "
	out := vm.Run(t, "cd /tmp; nsenter --net=/run/gresnet/jobs/900070/netns "+program+vm.Quote(seenAs)+patience+"203.0.113.2")
	if want := "203.0.113.2 203.0.113.1\n"; out != want {
		t.Errorf("the job is seen as\n%swant\n%s", out, want)
	}
	judged := func() string { return vm.Run(t, "tc filter show dev far0 ingress | grep -c from_wire || true") }
	vm.Must(t, "epilog", jobs[0])
	if got := judged(); got != "1\n" {
		t.Errorf("with one job left, far0 has %s programs", got)
	}
	vm.Must(t, "epilog", jobs[1])
	vm.Same(t, before)
	if log, _ := vm.Try("dmesg | grep \"netlink: 'gresnet\""); log != "" {
		t.Errorf("the kernel complains of messages: %s", log)
	}
	if left := vm.Run(t, "ls /sys/fs/bpf/gresnet/ports 2>/dev/null || true"); left != "" {
		t.Errorf("there are still %s", left)
	}
}

// bySMC connects to addresses by AF_SMC, beneath which the kernel makes a socket of TCP that has no
// file, and so no user. It holds what it has, and says how many there are.
const bySMC = `import ctypes, select, socket, struct, sys
libc, held = ctypes.CDLL(None), []
for address in sys.argv[2:]:
	s = socket.socket(43, socket.SOCK_STREAM)
	s.setblocking(False)
	to = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(16400), socket.inet_aton(address))
	libc.connect(s.fileno(), to, len(to))
	select.select([], [s], [], float(sys.argv[1]))
	name = ctypes.create_string_buffer(128)
	if libc.getpeername(s.fileno(), name, ctypes.byref(ctypes.c_int(128))):
		break
	held.append(s)
print(len(held))
`

// silent accepts connections and says nothing.
const silent = `import socket, time
s = socket.create_server(("0.0.0.0", 16400), backlog=500)
print("listens", flush=True)
time.sleep(3600)`

func TestASocketThatTheKernelMakesForAUserIsTheUsers(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.HCAsWithGPUs(t)
	gpus := strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(vm.GPUConfig)
	vm.WriteConfig(t, gpus+"\n[uplink]\nkind = \"auto\"\n")
	const job = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0"
	vm.Must(t, "prolog", job)
	server := strings.TrimSpace(vm.Run(t, "rm -f /tmp/silent; nsenter --net=/run/gresnet/jobs/900070/netns setsid python3 -c "+vm.Quote(silent)+" </dev/null >/tmp/silent 2>&1 & echo $!; until grep -q listens /tmp/silent; do sleep 0.1; done"))
	t.Cleanup(func() {
		vm.Run(t, "kill "+server+" || true; modprobe -r smc_diag smc || true")
		vm.Must(t, "epilog", job)
	})
	for user, want := range map[string]string{"bob": "0", "root": "1"} {
		patience := fmt.Sprintf(" %.0f ", vm.Slow(5*time.Second).Seconds())
		out := vm.Run(t, "cd /tmp; setpriv --reuid "+user+" --regid "+user+" --init-groups python3 -c "+vm.Quote(bySMC)+patience+"192.0.2.1")
		if got := strings.TrimSpace(out); got != want {
			t.Errorf("%s has %s connections to the job, want %s", user, got, want)
		}
	}
}
