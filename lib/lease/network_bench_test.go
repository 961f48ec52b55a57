package lease

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/test/netnstest"
)

// BenchmarkNetwork measures on this machine's own kernel what the network of a job adds to a prolog
// and an epilog that move one interface, for jobs of 2, 64 and 1024 nodes. Each round has each case
// once, and the best of the rounds counts, because other work of the machine only adds to it.
func BenchmarkNetwork(b *testing.B) {
	node := netnstest.New(b)
	node.Run(`ip link set lo up; ip link add hca0 type veth peer name far0; ip link set far0 up; ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
ip link add cluster0 type veth peer name switch0; ip link set switch0 up; ip link set cluster0 up; ip addr add 10.66.0.1/16 dev cluster0; ip route add default via 10.66.255.254`)
	state, conf := b.TempDir(), b.TempDir()+"/slurm.conf"
	text := ""
	for part := range 4 {
		text += fmt.Sprintf("NodeName=node[%d-%d] NodeAddr=10.66.%d.[1-250]\n", part*250+1, part*250+250, part)
	}
	text += "NodeName=node[1001-1024] NodeAddr=10.66.4.[1-24]\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	none := networkCost{}
	cases := []*networkCost{&none}
	for _, nodes := range []int{2, 64, 1024} {
		cases = append(cases, &networkCost{nodes: nodes}, &networkCost{nodes: nodes, wayOut: true})
	}
	for b.Loop() {
		for _, c := range cases {
			c.measure(b, node, state, conf)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range cases {
		for i, what := range []string{"prolog-ms", "epilog-ms", "prolog-cpu-ms", "epilog-cpu-ms"} {
			cost := slices.Min(c.took[i])
			if c != &none {
				cost -= slices.Min(none.took[i])
			}
			b.ReportMetric(cost, c.name()+"-"+what)
		}
	}
}

// networkCost is how long runs with a network of a kind took, in milliseconds: prologs, epilogs, and
// what of each was time of a processor, which other work of the machine adds least to.
type networkCost struct {
	nodes  int
	wayOut bool
	took   [4][]float64
}

func (c *networkCost) name() string {
	switch {
	case c.nodes == 0:
		return "without"
	case c.wayOut:
		return fmt.Sprintf("%d-nodes-and-way-out", c.nodes)
	}
	return fmt.Sprintf("%d-nodes", c.nodes)
}

func (c *networkCost) measure(b *testing.B, node *netnstest.NS, state, conf string) {
	b.Helper()
	for i, program := range []string{"prolog", "epilog"} {
		cmd := whole.command(node, state, program, never)
		if c.nodes > 0 {
			cmd.Env = append(cmd.Env, "GRESNET_BED_CONF="+conf, fmt.Sprintf("GRESNET_BED_NODES=node[1-%d]", c.nodes))
		}
		if c.wayOut {
			cmd.Env = append(cmd.Env, "GRESNET_BED_UPLINK="+config.UplinkAuto)
		}
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			b.Fatalf("%s of %s: %v: %s", program, c.name(), err, out)
		}
		took, cpu := time.Since(begun), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
		c.took[i] = append(c.took[i], float64(took.Microseconds())/1000)
		c.took[i+2] = append(c.took[i+2], float64(cpu.Microseconds())/1000)
	}
}
