package config

import (
	"slices"
	"strings"
)

// Overlay is the table [overlay]: the network of a job's own between its nodes.
type Overlay struct {
	Kind      string // of the Overlay* words
	Port      int    // UDP, on the nodes
	Interface string // its name in the job; empty: that of the node's interface
	Underlay  string // the name by which a node's address is looked up, with nodePlaceholder in place of the node's; empty: NodeAddr
	Services  []int  // ports from 1024 on at which the job's nodes are the nodes themselves
}

// nodePlaceholder stands for a node's NodeName.
const nodePlaceholder = "{node}"

const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

// Host returns what the resolver is asked for about a node, or is empty.
func (o Overlay) Host(node string) string {
	return strings.Replace(o.Underlay, nodePlaceholder, node, 1)
}

// The kinds of overlays.
const (
	OverlayNone  = "none"
	OverlayVXLAN = "vxlan"
)

// On tells whether jobs get an overlay.
func (o Overlay) On() bool { return o.Kind == OverlayVXLAN }

// defaultOverlay is on: without it, the usual way to meet at the first node's name fails.
//
// The port is privileged, as whoever has it keeps jobs from theirs; and it is below 512, from
// where on RPC programs take ports by chance (glibc sunrpc/bindrsvprt.c).
//
// The services are slurmctld and slurmd.
var defaultOverlay = Overlay{
	Kind: OverlayVXLAN, Port: 489, Services: []int{6817, 6818},
}

func (o *Overlay) read(t table) {
	t.Allow(
		// `"vxlan"` | each job has a network of its own between its nodes; `"none"`: it has none
		"kind",
		// `489` | UDP port of the nodes, 1 to 1023, the same on all nodes. No other VXLAN may have it
		"port",
		// that of the node's interface with NodeAddr | the interface's name in the job. No interface of a
		// job's HCA may have it
		"name",
		// NodeAddr | the names by which nodes look up each other's addresses; `{node}` stands for the
		// NodeName. With `"{node}-ib0"`, say, packets take an IPoIB interface that stays on the node. The same
		// on all nodes
		"underlay",
		// `[6817, 6818]` | ports from 1024 on at which, in a job with an uplink, the job's nodes are the nodes
		// themselves: slurmctld, slurmd. All ports below 1024 are so, too
		"services",
	)
	t.Choose("kind", &o.Kind, OverlayNone, OverlayVXLAN)
	if n, there := valueOf[int64](t, "port", "a number"); there {
		o.Port = int(n)
		if n < 1 || n > 1023 {
			t.Fail("port", "GN150 take one that root alone can bind: a user who has it would keep jobs from their networks", "%d is not from 1 to 1023", n)
		}
	}
	if ports, there := readPorts(t, "services"); there {
		o.Services = ports
	}
	if text, there := t.Text("underlay"); there {
		o.Underlay = text
		if rest := strings.Replace(text, nodePlaceholder, "", 1); rest == text || strings.Trim(rest, hostLetters) != "" {
			t.Fail("underlay", `GN151 write it like "`+nodePlaceholder+`-ib0"`, "%q is not the name of a host with %s once in it", text, nodePlaceholder)
		}
	}
	readName(t, "name", &o.Interface)
}

// readPorts returns a list of TCP ports, which may be empty.
func readPorts(t table, key string) (ports []int, there bool) {
	list, there := valueOf[[]any](t, key, "a list of numbers")
	for _, v := range list {
		n, ok := v.(int64)
		switch {
		case !ok:
			t.Fail(key, "", "is not a list of numbers")
		case n < 1 || n > 65535:
			t.Fail(key, "", "%d is not a port from 1 to 65535", n)
		case slices.Contains(ports, int(n)):
			t.Fail(key, "", "%d is there twice", n)
		}
		ports = append(ports, int(n))
	}
	return ports, there
}
