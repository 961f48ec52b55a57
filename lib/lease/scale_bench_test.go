package lease

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/test/netnstest"
)

// BenchmarkScaleOverlay measures on this machine's own kernel what a prolog and an epilog take in jobs
// of many nodes: processor time, and the most memory. The nodes are in slurm.conf by ranges, by a
// line of its own each, or only by their names, which /etc/hosts has. The last needs a mount
// namespace of this process's own, and GRESNET_SCALE_MOUNTS says that it has one.
func BenchmarkScaleOverlay(b *testing.B) {
	node := netnstest.New(b)
	node.Run(`ip link set lo up; ip link add hca0 type veth peer name far0; ip link set far0 up; ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0
ip link add cluster0 type veth peer name switch0; ip link set switch0 up; ip link set cluster0 up; ip addr add 10.66.0.1/16 dev cluster0; ip route add default via 10.66.255.254`)
	const most = 4096
	at := func(i int) string { return fmt.Sprintf("10.66.%d.%d", i/250, i%250+1) }
	var ranges, lines, names, hosts strings.Builder
	for i := 0; i < most; i += 250 {
		last := min(i+250, most)
		fmt.Fprintf(&ranges, "NodeName=node[%d-%d] NodeAddr=10.66.%d.[1-%d]\n", i+1, last, i/250, last-i)
	}
	fmt.Fprintf(&names, "NodeName=node[1-%d]\n", most)
	for i := range most {
		fmt.Fprintf(&lines, "NodeName=node%d NodeAddr=%s\n", i+1, at(i))
		fmt.Fprintf(&hosts, "%s node%d.cluster node%d\n", at(i), i+1, i+1)
	}
	cases := []*scaleCost{{name: "without"}}
	for _, nodes := range []int{2, 256, 1024, most} {
		cases = append(cases,
			&scaleCost{name: fmt.Sprintf("%d-nodes", nodes), nodes: nodes, conf: ranges.String()},
			&scaleCost{name: fmt.Sprintf("%d-nodes-way-out", nodes), nodes: nodes, conf: ranges.String(), wayOut: true},
			&scaleCost{name: fmt.Sprintf("%d-nodes-a-line-each", nodes), nodes: nodes, conf: lines.String()})
		if os.Getenv("GRESNET_SCALE_MOUNTS") != "" {
			cases = append(cases, &scaleCost{name: fmt.Sprintf("%d-nodes-etc-hosts", nodes), nodes: nodes, conf: names.String(), hosts: hosts.String()})
		}
	}
	state := b.TempDir()
	for b.Loop() {
		for _, c := range cases {
			c.measure(b, node, state)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range cases {
		b.ReportMetric(slices.Min(c.cpu[0]), c.name+"-prolog-cpu-ms")
		b.ReportMetric(slices.Min(c.cpu[1]), c.name+"-epilog-cpu-ms")
		b.ReportMetric(slices.Min(c.memory), c.name+"-memory-MiB")
	}
}

// scaleCost is what the runs of a case took: of a prolog and an epilog, milliseconds of a processor;
// of a prolog, MiB of memory.
type scaleCost struct {
	name, conf, hosts string
	nodes             int
	wayOut            bool

	cpu    [2][]float64
	memory []float64
}

func (c *scaleCost) measure(b *testing.B, node *netnstest.NS, state string) {
	b.Helper()
	conf := state + "-slurm.conf"
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	write(conf, c.conf)
	if c.hosts != "" {
		write(state+"-hosts", "127.0.0.1 localhost\n"+c.hosts)
		if err := syscall.Mount(state+"-hosts", "/etc/hosts", "", syscall.MS_BIND, ""); err != nil {
			b.Fatal(err)
		}
		defer syscall.Unmount("/etc/hosts", 0)
	}
	for i, program := range []string{"prolog", "epilog"} {
		cmd := whole.command(node, state, program, never)
		if c.nodes > 0 {
			cmd.Env = append(cmd.Env, "GRESNET_BED_CONF="+conf, fmt.Sprintf("GRESNET_BED_NODES=node[1-%d]", c.nodes))
		}
		if c.wayOut {
			cmd.Env = append(cmd.Env, "GRESNET_BED_UPLINK="+config.UplinkAuto)
		}
		if program == "prolog" {
			cmd.Env = append(cmd.Env, "GRESNET_BED_NOTICES=1") // a network that lacks something is told as one
		}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			b.Fatalf("%s of %s: %v: %s", program, c.name, err, out)
		}
		spent := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		c.cpu[i] = append(c.cpu[i], float64(spent.Microseconds())/1000)
		if program == "prolog" {
			c.memory = append(c.memory, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
		}
	}
}
