package network

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// listener takes datagrams and calls in a job, and writes down what it heard.
const listener = `import os, select, socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 5555))
tcp, held = socket.create_server(("", 7000)), []
out = open("/tmp/heard." + os.environ["SLURM_JOB_ID"], "w")
print("ready", file=out, flush=True)
while True:
	for s in select.select([udp, tcp], [], [])[0]:
		if s is udp:
			data, peer = udp.recvfrom(999)
			print(data.decode(), file=out, flush=True)
			udp.sendto(b"answer", peer)
		else:
			c, _ = tcp.accept()
			c.send(b"held")
			held.append(c)
`

// forge sends packets of a job's VXLAN to a node, with a text for a process of the job: one, and one as the
// second part of a packet whose first is of another network (UDP_SEGMENT). forge TO JOB TEXT [DEVICE [PORT]]
const forge = `import socket, struct, sys
def packet(id, text):
	to, of = socket.inet_aton("192.0.2.1"), socket.inet_aton("192.0.2.2")
	ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(text), 0, 0, 64, 17, 0, of, to)
	n = sum(struct.unpack("!10H", ip))
	n = (n & 0xffff) + (n >> 16)
	ip = ip[:10] + struct.pack("!H", ~n & 0xffff) + ip[12:]
	head = struct.pack("!BxxxI", 8, id << 8) + b"\x0e\x67" + to + b"\x0e\x67" + of + b"\x08\x00"
	return head + ip + struct.pack("!HHHH", 5555, 5555, 8 + len(text), 0) + text
to, job, text = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
device, port = (sys.argv[4:] + [""])[0], int((sys.argv[5:] + ["0"])[0])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if device:
	s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
s.bind(("", port))
s.connect((to, 489))
s.send(packet(job, text))
if port == 0:
	s.setsockopt(17, 103, len(packet(job, text)))
	s.send(packet(1 << 23, text) + packet(job, text))
`

// tampers are what a user of a job does to its network, and must not be able to.
var tampers = []string{
	"ip link set eth0 down", "ip link set uplink0 address 02:00:00:00:00:99", "ip addr add 192.0.2.77/24 dev eth0", "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:99 dev eth0",
	"bridge fdb append ff:ff:ff:ff:ff:ff dst 192.0.2.99 dev eth0", "ip rule del pref 1", "nft flush ruleset", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
	"python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768)'", "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((\"\", 700))'",
}

func TestUsersOfANodeReachNoJobOfAnotherUser(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WithConfig(t, auto)
	for name, text := range map[string]string{"hears": listener, "forge": forge} {
		vm.Run(t, "printf %s "+vm.Quote(text)+" >/tmp/"+name+".py; chmod 0644 /tmp/"+name+".py")
	}
	const asBob = "setpriv --reuid bob --regid bob --init-groups "
	in := func(job string) string { return "nsenter --net=/run/gresnet/jobs/" + job + "/netns " }
	heard := func(job string) string {
		out, _ := vm.Try("cat /tmp/heard." + job + " 2>/dev/null")
		return out
	}
	submit := func(user string) string {
		job := vm.Submit(t, user, "--gres=nic:1", "srun python3 /tmp/hears.py")
		vm.Eventually(t, "job "+job+" hears", func() bool { return heard(job) == "ready\n" })
		return job
	}
	first, second := submit("alice"), submit("bob")

	for _, f := range []struct{ who, as, to, device string }{
		{"a user of the node", asBob, "192.0.2.1", ""},
		{"a user of the node by its loopback", asBob, "127.0.0.1", ""},
		{"another job of the node", in(second) + asBob, "192.0.2.1", "uplink0"},
	} {
		vm.Run(t, fmt.Sprintf("cd /tmp; %spython3 forge.py %s %s '%s' %s", f.as, f.to, first, f.who, f.device))
	}
	// What comes later has come when the others do.
	vm.Run(t, "python3 /tmp/forge.py 192.0.2.1 "+first+" 'root of the node' '' 700")
	vm.Eventually(t, "job "+first+" has heard what root forged", func() bool { return strings.Contains(heard(first), "root of the node\n") })
	if got := heard(first); got != "ready\nroot of the node\n" {
		t.Errorf("job %s of alice has heard:\n%s", first, got)
	}

	for _, wrap := range []string{"", "unshare -rm "} {
		vm.Run(t, "cd /tmp; "+in(second)+asBob+wrap+"python3 -c 1")
		for _, tamper := range tampers {
			if out, err := vm.Try("cd /tmp; " + in(second) + asBob + wrap + "sh -ec " + vm.Quote(tamper)); err == nil {
				t.Errorf("a user can %s%s: %s", wrap, tamper, out)
			}
		}
	}

	for _, job := range []string{first, second} {
		vm.Run(t, "scancel "+job)
		vm.Ended(t, job)
	}
	vm.Same(t, before)
}
