package network

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// nodeAddress is the node's on its management network, and auto and macvlan are uplinks as sites have them.
const (
	nodeAddress = "192.0.2.1"
	auto        = "\n[uplink]\nkind = \"auto\"\nnameservers = [\"192.0.2.1\"]\nsearch = [\"cluster.test\"]\n"
	macvlan     = "\n[uplink]\nkind = \"macvlan\"\nparent = \"eth0\"\naddresses = \"192.0.2.64-192.0.2.71\"\n"
)

// licences returns a server on the node's management address, which tells who asks.
func licences(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", nodeAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			fmt.Fprintf(c, "licence for %s\n", host)
			c.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// nameserver answers each question with one address: the DNS of the site.
func nameserver(t *testing.T, answer string) {
	t.Helper()
	c, err := net.ListenPacket("udp", nodeAddress+":53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		question := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(question)
			if err != nil {
				return
			}
			c.WriteTo(answerTo(question[:n], net.ParseIP(answer)), from)
		}
	}()
}

// answerTo returns an answer with one record A, or none to what is not asked for A.
func answerTo(question []byte, ip net.IP) []byte {
	end := 12
	for end < len(question) && question[end] != 0 {
		end += 1 + int(question[end])
	}
	end += 5 // the name's end, type and class
	if end > len(question) {
		return nil
	}
	isA := question[end-3] == 1
	m := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:end]...)
	if !isA {
		return m
	}
	m[7] = 1
	m = append(m, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4) // the name at 12, A, IN, a minute
	return append(m, ip.To4()...)
}

// master is what a program of many processes does that find each other by the
// host name of the first: that one listens, another connects by the name.
const master = `python3 -c '
import os, socket
name = os.environ["MASTER_ADDR"]
s = socket.create_server(("", 0))
c = socket.create_connection((name, s.getsockname()[1]), timeout=20)
print("master", s.accept()[1][0], flush=True)'`

func TestABatchScriptInsideHasTheManagementNetworkByAnUplink(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	port := licences(t)
	vm.WithConfig(t, auto+"[overlay]\nservices = [6817, 6818, "+port+"]\n")
	vm.PluginArguments(t, "batch")
	nameserver(t, nodeAddress)
	script := vm.WhereAmI + `
echo "uplink $GRESNET_UPLINK"
echo "dns $(getent ahostsv4 licences.cluster.test | awk "NR == 1 {print \$1}") $(getent ahostsv4 short | awk "NR == 1 {print \$1}")"
bash -c "exec 3<>/dev/tcp/` + nodeAddress + `/` + port + `; head -n 1 <&3"
export MASTER_ADDR=$(hostname)
` + master + `
srun -n 2 bash -c "echo step \$(readlink /proc/self/ns/net)"
echo "srun exits with $?"
echo "covered $(grep -c " /etc/hosts " /proc/self/mountinfo)"
`
	job := vm.Submit(t, "alice", "-n 2 --gres=nic:1", script)
	vm.Ended(t, job)
	out := vm.Run(t, "cat /tmp/"+job+".out")
	inside := strings.TrimSpace(strings.SplitN(out, "\n", 2)[0])
	for _, want := range []string{
		"uplink 198.19.0.1\n", "dns 192.0.2.1 192.0.2.1\n", "licence for 192.0.2.1\n", "master 192.0.2.1\n",
		"srun exits with 0\n", "covered 0\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("wanted %q", want)
		}
	}
	if strings.Count(out, "step "+inside+"\n") != 2 || inside == strings.TrimSpace(vm.Run(t, vm.WhereAmI)) {
		t.Errorf("script and step are not in the job's namespace %s", inside)
	}
	if t.Failed() {
		t.Logf("the job said:\n%s\n%s", out, vm.SlurmState())
	}
	vm.Same(t, before)
}

func TestABatchScriptIsInsideWhereSrunWorksThere(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.PluginArguments(t, "batch=auto")
	node := strings.TrimSpace(vm.Run(t, vm.WhereAmI))
	const script = `
echo "script_at $(readlink /proc/self/ns/net)"
srun -n 2 bash -c "echo step \$(readlink /proc/self/ns/net)"
echo "srun exits with $?"
`
	for _, c := range []struct {
		name, config string
		inside       bool
	}{
		{"with a way out", "\n[uplink]\nkind = \"auto\"\n", true},
		{"without one", "", false},
		{"without a network between its nodes", "\n[uplink]\nkind = \"auto\"\n[overlay]\nkind = \"none\"\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.WithConfig(t, c.config)
			out := vm.Script(t, "-n 2 --gres=nic:1", script)
			_, at, _ := strings.Cut(out, "script_at ")
			at, _, _ = strings.Cut(at, "\n")
			if got := at != node; got != c.inside {
				t.Errorf("the script is inside: %v, wanted %v", got, c.inside)
			}
			if !strings.Contains(out, "srun exits with 0\n") || c.inside != (strings.Count(out, "step "+at+"\n") == 2) {
				t.Errorf("the job said:\n%s", out)
			}
		})
	}
	vm.Same(t, before)
}

func TestAMacvlanIsShownAndUndone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WithConfig(t, macvlan)
	if plan := vm.Run(t, vm.Repo()+"/bin/gresnet plan --gres nic:1"); !strings.Contains(plan, "uplink macvlan 192.0.2.64") {
		t.Errorf("the plan:\n%s", plan)
	}
	// One after the other: of two prologs at one time either may be the first to take an address.
	submit := func(user string) string {
		job := vm.Submit(t, user, "--gres=nic:1", "srun bash -c 'ip -o -4 addr show dev uplink0; sleep 1000'")
		vm.Eventually(t, "the step has written", func() bool {
			text, err := os.ReadFile("/tmp/" + job + ".out")
			return err == nil && strings.Contains(string(text), "uplink0")
		})
		return job
	}
	job, other := submit("alice"), submit("bob")
	for _, want := range []struct{ job, address string }{{job, "192.0.2.64"}, {other, "192.0.2.65"}} {
		if status := vm.Run(t, vm.Repo()+"/bin/gresnet status "+want.job); !strings.Contains(status, "uplink: "+want.address+"\n") {
			t.Errorf("status lacks %s:\n%s", want.address, status)
		}
	}
	vm.Cancel(t, job)
	vm.Cancel(t, other)
	vm.Same(t, before)
}

func TestMpirunInABatchScriptHasItsWholeWorld(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.NeedMPI(t)
	before := vm.Picture(t)
	for _, c := range []struct {
		name   string
		uplink bool
	}{
		{"without an uplink", false},
		{"with an uplink", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.uplink {
				vm.WithConfig(t, auto)
			}
			vm.PluginArguments(t, "batch")
			out := vm.Script(t, "-n 2 --gres=nic:1", "mpirun -n 2 python3 "+vm.MPIPath+"; echo mpirun exits with $?")
			vm.WholeWorld(t, vm.Ranks(t, out), 2, out)
			if !strings.Contains(out, "mpirun exits with 0\n") {
				t.Errorf("mpirun fails:\n%s", out)
			}
		})
	}
	vm.Same(t, before)
}
