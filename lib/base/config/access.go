package config

import (
	"cmp"
	"slices"
	"strconv"
)

// Access is the table [access]: who may open which device nodes.
type Access struct {
	Host string // Closed or Open: the node's own, of HCAs that jobs can have

	// What a job gets besides uverbs, by which all programs use an HCA.
	CM   string // RDMA-CM: connections by addresses. CMAuto, CMYes or CMNo
	UMAD bool   // management datagrams
	ISSM bool   // to be the fabric's subnet manager

	Guard string // GuardAuto, GuardRequired or GuardOff

	// Isolation is the job's own part of the node, unless a [[policy]] says otherwise:
	// IsolateNetwork or IsolateDevices.
	Isolation string
}

// Whether a job gets rdma_cm.
const (
	// CMAuto: if it has the node to itself. By rdma_cm a job gets at other jobs' HCAs.
	CMAuto = "auto"
	CMYes  = "true"
	CMNo   = "false"
)

// ForShared returns a key and its value that jobs can have in shared mode alone; empty: there is none.
func (c Config) ForShared() (key, value string) {
	if c.SaysDevices() {
		return "isolation", IsolateDevices
	}
	slots := func(h HCA) bool { return h.Kind().Slots() && !(h.Kind().WholeIfOne && h.Count == 1) }
	if i := slices.IndexFunc(c.HCAs, slots); i >= 0 {
		return "part", c.HCAs[i].Part
	}
	return "", ""
}

// SaysDevices tells whether [access] or a policy has isolation = "devices".
func (c Config) SaysDevices() bool {
	devices := func(p Policy) bool { return p.Isolation == IsolateDevices }
	return c.Access.Isolation == IsolateDevices || slices.ContainsFunc(c.Policies, devices)
}

// MovesNothing tells whether jobs get device nodes alone: all else stays where monitors look.
func (c Config) MovesNothing() bool {
	network := func(p Policy) bool { return p.Isolation == IsolateNetwork }
	return c.Access.Isolation == IsolateDevices && !slices.ContainsFunc(c.Policies, network)
}

// readCM reads the key rdma_cm. It returns an empty text if the key is not there, or is wrong.
func readCM(t table) string {
	if v, _ := valueOf[any](t, "rdma_cm", ""); v == CMAuto {
		return CMAuto
	}
	if cm, there := valueOf[bool](t, "rdma_cm", `true, false or "auto"`); there {
		return strconv.FormatBool(cm)
	}
	return ""
}

// The job's own part of the node.
const (
	// IsolateNetwork: a network namespace with the interfaces of its HCAs, and their device nodes.
	IsolateNetwork = "network"
	// IsolateDevices: the device nodes of its HCAs. It stays in the node's network, and nothing is moved.
	IsolateDevices = "devices"
)

// What keeps a user's other jobs from a job's HCAs where the RDMA netns mode is
// shared: a BPF program.
const (
	GuardAuto     = "auto"     // where the node can
	GuardRequired = "required" // a node that cannot gives no job an HCA
	GuardOff      = "off"
)

// Who may open the node's own device nodes of an HCA that no job has.
const (
	Closed = "closed" // root
	Open   = "open"   // whoever udev and the kernel let
)

func (a *Access) read(t table) {
	t.Allow(
		// `"open"` | free HCAs' device nodes and `rdma_cm` stay as udev has them; `"closed"`: only root can
		// open them: [see below](#on-the-node)
		"host",
		// `"auto"` | whether the job gets [`rdma_cm`](#rdma-cm): `"auto"`: if it has the node to itself;
		// `true`; `false`. A `[[policy]]` can set it for some jobs
		"rdma_cm",
		// `false` | the job also gets the `umad` devices of its HCAs and of their SMI sub-devices (`smi1`
		// beside `mlx5_0`, on ConnectX-8), which are no HCAs. In exclusive mode no job gets an HCA with such a
		// sub-device: the kernel does not end the move
		"umad",
		// `false` | the job also gets the `issm` devices
		"issm",
		// `"auto"` | in shared mode, a BPF program keeps a job's HCAs from its user's other processes, [if the
		// node can have one](#the-guard); `"required"`: without it no job gets an HCA; `"off"`: there is none
		"guard",
		// `"network"` | a job has its own network namespace with its HCAs' interfaces, and device nodes;
		// `"devices"`: [device nodes only](#isolation). A `[[policy]]` can set it for some jobs
		"isolation",
	)
	t.Choose("host", &a.Host, Closed, Open)
	a.CM = cmp.Or(readCM(t), a.CM)
	a.UMAD, _ = valueOf[bool](t, "umad", "true or false")
	a.ISSM, _ = valueOf[bool](t, "issm", "true or false")
	t.Choose("guard", &a.Guard, GuardAuto, GuardRequired, GuardOff)
	t.Choose("isolation", &a.Isolation, IsolateNetwork, IsolateDevices)
}

// Kinds returns the kinds of device nodes that a job gets, as the kernel names them.
func (a Access) Kinds() []string {
	kinds := []string{"uverbs", "hfi1"}
	if a.UMAD {
		kinds = append(kinds, "umad")
	}
	if a.ISSM {
		kinds = append(kinds, "issm")
	}
	return kinds
}
