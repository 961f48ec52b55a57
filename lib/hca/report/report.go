// Package report has what people and programs are told of a node: the types that lib/admin/inspect fills in,
// that --json prints and that the tables show, and the lines of [accounting]. docs/json.md is made from
// the comments here.
package report

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
)

// Version is that of all documents. A document may get more fields under the same version; a field
// that goes, or means something else, makes another one.
const Version = 1

// Scan is what `gresnet scan --json` prints: the node's HCAs.
type Scan struct {
	Stamp
	Mode rdma.Mode `json:"mode"`           // RDMA netns mode: shared or exclusive
	HCAs []HCA     `json:"hcas"`           // in the order of the node table
	GPUs []GPU     `json:"gpus,omitempty"` // in Slurm's order

	Parts   []config.HCA  `json:"-"` // the tables of gresnet.toml that give a PF in parts
	SELinux sysfs.SELinux `json:"-"`
}

// Status is what `gresnet status --json` prints: who holds what.
type Status struct {
	Stamp
	HCAs   []HCA   `json:"hcas"`   // the node's HCAs, and those that `[[hca]]` lists and the node lacks
	Leases []Lease `json:"leases"` // all leases; with a job id, only that job's

	Unjudged []string `json:"unjudged,omitempty"` // interfaces that lead out and lack gresnet's traffic filters: jobs get nothing by them until the next prolog

	Drift error `json:"-"` // why there is no mapping: no HCA has a GRES then
}

// Plan is what `gresnet plan --json` prints: what a job would have, and how it gets it.
type Plan struct {
	Stamp
	Notes     []string `json:"notes,omitempty"`     // the sources' remarks about the choice
	Isolation string   `json:"isolation,omitempty"` // network: the job has a network of its own; devices: it has the node's
	HCAs      []HCA    `json:"hcas"`                // the HCAs that the job gets
	Uplink    *Uplink  `json:"uplink,omitempty"`    // the job's way to other networks
	Overlay   *Overlay `json:"overlay,omitempty"`   // the network between the job's nodes
	Names     []Names  `json:"names,omitempty"`     // lines of the job's /etc/hosts that replace the node's
	Steps     []Step   `json:"steps"`               // the prolog's steps, in order
}

// Check is what `gresnet check --json` prints: the findings about the node.
type Check struct {
	Stamp
	Findings []Finding `json:"findings"` // without those that are ok, if --quiet is given
}

// Trial is what `gresnet try --report` writes: how each HCA went into a job and came back. Serial numbers,
// GUIDs and addresses are left out.
type Trial struct {
	Stamp
	Gresnet  string    `json:"gresnet"`            // version of gresnet
	Kernel   string    `json:"kernel"`             // version of the kernel
	Slurm    string    `json:"slurm,omitempty"`    // version of Slurm
	Mode     rdma.Mode `json:"mode"`               // RDMA netns mode: shared or exclusive
	HCAs     []Tried   `json:"hcas"`               // the HCAs of the command line, or all
	Unread   []string  `json:"unread,omitempty"`   // parts of the node that were not compared, and why
	Restless []string  `json:"restless,omitempty"` // parts of the node that change by themselves, and were not compared
}

// Tried is an HCA that `gresnet try` has tried.
type Tried struct {
	Name        string   `json:"name"`                  // name of the RDMA device, like mlx5_3
	Driver      string   `json:"driver,omitempty"`      // kernel driver
	Card        string   `json:"card,omitempty"`        // PCI vendor and device, and the board's id
	Firmware    string   `json:"firmware,omitempty"`    // version of its firmware
	Links       []string `json:"links,omitempty"`       // link layers of its ports
	Together    bool     `json:"together,omitempty"`    // it went into a job with all others at once
	Rounds      int      `json:"rounds"`                // how often it went into a job and came back
	Kills       int      `json:"kills,omitempty"`       // how often a prolog or an epilog was killed meanwhile
	In          float64  `json:"in_seconds"`            // the slowest prolog
	Out         float64  `json:"out_seconds"`           // the slowest epilog
	Training    float64  `json:"training_seconds"`      // the longest time from an epilog's end until the links were as before
	Verbs       string   `json:"verbs,omitempty"`       // the answer of the kernel's verbs inside
	Gbits       float64  `json:"peer_gbits,omitempty"`  // its slowest rate to --peer from inside, in Gbit a second
	Differences []string `json:"differences,omitempty"` // lines that the node had before (-) and has now (+)
	Faults      []string `json:"faults,omitempty"`      // other faults
	Refused     string   `json:"refused,omitempty"`     // why no job gets it: it was not touched
	Verdict     string   `json:"verdict"`               // good, differs, failed, refused or interrupted
}

// JobLine is a line of the file of `[accounting]`: what a run of a job sent and received.
type JobLine struct {
	Stamp
	Time    time.Time `json:"time"`              // when the HCAs were restored, in UTC
	Cluster string    `json:"cluster,omitempty"` // Slurm's name for the cluster
	Node    string    `json:"node"`              // Slurm's name for the node
	Job     uint32    `json:"job"`               // the job's id
	Run     string    `json:"run"`               // which run of the job: how often it was requeued, and "/" and its SLUID where it has one
	HCAs    []HCA     `json:"hcas"`              // the run's HCAs, with the traffic of their ports
}

// HCA is an HCA, or a VF that jobs can have: the same object in all documents.
type HCA struct {
	Name     string        `json:"name,omitempty"`     // name of the RDMA device, like mlx5_3; without it the HCA is missing
	ID       node.ID       `json:"id,omitzero"`        // its identity while it is in its PCI slot
	GUID     string        `json:"guid,omitempty"`     // a VF's node GUID now
	Function string        `json:"function,omitempty"` // a VF's own PCI address
	Driver   string        `json:"driver,omitempty"`   // kernel driver
	Gres     string        `json:"gres,omitempty"`     // name of its GRES; without it the mapping gives the HCA to no job
	Type     string        `json:"type,omitempty"`     // type of its GRES
	Index    *int          `json:"index,omitempty"`    // Slurm's number for it among those of its GRES
	Part     string        `json:"part,omitempty"`     // kind of the slots that jobs have of it: macvlan, ipvlan, pkey or shared
	PKey     node.PKeyText `json:"pkey,omitempty"`     // P_Key of its slots, like 0x8001; in a plan or a lease, the job's
	Keep     bool          `json:"keep,omitempty"`     // its interfaces stay on the node
	Take     bool          `json:"take,omitempty"`     // jobs get it although the node needs it
	NUMA     *int          `json:"numa,omitempty"`     // NUMA node; -1: not known
	Cores    []int         `json:"cores,omitempty"`    // cores of that NUMA node, in Slurm's numbers
	VFs      *VFs          `json:"vfs,omitempty"`      // a PF's VFs
	Ports    []Port        `json:"ports,omitempty"`    // its ports
	Chars    []Char        `json:"chars,omitempty"`    // its character devices
	Serves   []int         `json:"serves,omitempty"`   // GPUs whose jobs get it
	Distance []string      `json:"distance,omitempty"` // for each GPU the closest thing that both are in: switch, root, numa or system
	State    string        `json:"state,omitempty"`    // free, leased, quarantined, unmapped, gone or missing
	Claim    *Claim        `json:"claim,omitempty"`    // the lease that has it; without it no job has it
	Away     bool          `json:"away,omitempty"`     // it is not in the node's network namespace
	Moving   bool          `json:"moving,omitempty"`   // a move of its RDMA device has not ended
	Gone     bool          `json:"gone,omitempty"`     // neither a job nor the node has it
	Missing  string        `json:"missing,omitempty"`  // why no HCA is known to be that of an `[[hca]]`
	User     string        `json:"user,omitempty"`     // processes of users that use it although no job has it

	Slots   int      `json:"-"` // how many its HCA has, if it is a slot, or would have if it were not whole
	Network string   `json:"-"` // where the interfaces that gresnet makes get their addresses
	Twins   []string `json:"-"` // other RDMA devices that have its identity: no job gets one of them
	Refused string   `json:"-"` // why no job gets it, if somebody has looked
}

// Bare returns an HCA with a name and an identity, and nothing else.
func Bare(name string, id node.ID) HCA { return HCA{Name: name, ID: id} }

// Known returns an HCA as the node table has it.
func Known(n node.HCA) HCA {
	h := Bare(n.Name, n.ID)
	h.GUID, h.Function, h.Driver = n.GUID, n.Function, n.Driver
	for _, p := range n.Ports {
		h.Ports = append(h.Ports, PortOf(p))
	}
	return h
}

// PortOf returns a port as the node table has it.
func PortOf(p node.Port) Port {
	return Port{Num: p.Num, LinkLayer: p.LinkLayer, State: p.State, Interface: p.Interface}
}

// Have gives an HCA its GRES, if it has one.
func (h *HCA) Have(gres, kind string, index int) {
	if h.Gres, h.Type, h.Index = gres, kind, nil; gres != "" {
		h.Index = &index
	}
}

// Number returns the HCA's number among those of its GRES, 0 if it has no GRES.
func (h HCA) Number() int {
	if h.Index == nil {
		return 0
	}
	return *h.Index
}

// seat returns the HCA's NUMA node, -1 if it is not known.
func (h HCA) seat() int {
	if h.NUMA == nil {
		return -1
	}
	return *h.NUMA
}

// pci returns the PCI address of the HCA's own function.
func (h HCA) pci() string { return cmp.Or(h.Function, h.ID.PCI) }

// nodeGUID returns the HCA's node GUID.
func (h HCA) nodeGUID() string { return cmp.Or(h.GUID, h.ID.GUID) }

// VFs counts the VFs of a PF.
type VFs struct {
	Now   int `json:"now"`   // VFs that there are
	Total int `json:"total"` // VFs that the card allows

	Switchdev bool `json:"switchdev,omitempty"` // the PF is in switchdev mode: each VF has a representor, which has its VLAN
}

// Port is a port of an HCA.
type Port struct {
	Num       uint32          `json:"num"`                  // its number, from 1 on
	LinkLayer string          `json:"link_layer,omitempty"` // InfiniBand or Ethernet
	State     string          `json:"state,omitempty"`      // ACTIVE, DOWN, …
	Rate      string          `json:"rate,omitempty"`       // like 400 Gb/sec (4X NDR)
	Interface string          `json:"interface,omitempty"`  // its network interface
	Addresses []netip.Prefix  `json:"addresses,omitempty"`  // addresses of its interface in the job
	PKeys     []node.PKeyText `json:"pkeys,omitempty"`      // its P_Keys, if its HCA is for partitions

	// What the port carried for a job. Each is left out if it is not known.
	SentBytes       *uint64           `json:"sent_bytes,omitempty"`       // bytes that it sent
	ReceivedBytes   *uint64           `json:"received_bytes,omitempty"`   // bytes that it received
	SentPackets     *uint64           `json:"sent_packets,omitempty"`     // packets that it sent
	ReceivedPackets *uint64           `json:"received_packets,omitempty"` // packets that it received
	Hardware        map[string]uint64 `json:"hw_counters,omitempty"`      // the driver's own counters that grew, and by how much
}

// Char is a character device of an HCA.
type Char struct {
	Kind string `json:"kind"`           // uverbs, umad or issm
	Port uint32 `json:"port,omitempty"` // its port; without it, it is the HCA's
	Name string `json:"name"`           // its name in /dev/infiniband
}

// Claim says which job has an HCA.
type Claim struct {
	Job         uint32    `json:"job"`                   // the job's id
	Run         string    `json:"run"`                   // which run of it
	UID         uint32    `json:"uid"`                   // its user
	Since       time.Time `json:"since"`                 // when it was claimed
	Quarantined string    `json:"quarantined,omitempty"` // why no job gets it
	Doubt       bool      `json:"doubt,omitempty"`       // its former state is not known: a person must look at it
}

// GPU is a GPU of the node.
type GPU struct {
	PCI  string `json:"pci"`  // PCI address
	NUMA int    `json:"numa"` // NUMA node; -1: not known
}

// Lease is a job's lease.
type Lease struct {
	Job     uint32         `json:"job"`               // the job's id
	Run     string         `json:"run"`               // which run of it
	State   string         `json:"state"`             // complete, refused, partial or damaged
	Age     time.Duration  `json:"age_ns"`            // nanoseconds since the prolog began it
	Uplink  string         `json:"uplink,omitempty"`  // address of its uplink
	Dropped uint64         `json:"dropped,omitempty"` // packets that were dropped, because it sent them by its uplink from a port that is not its own
	Steps   []proc.Process `json:"steps,omitempty"`   // its slurmstepd processes
	Left    []Step         `json:"left,omitempty"`    // what its epilog will undo
}

// Step is a step of a lease.
type Step struct {
	Kind   string `json:"kind"`             // claim, namespace, rdma, link, …
	Object string `json:"object,omitempty"` // the object of the step
	HCA    *HCA   `json:"hca,omitempty"`    // its HCA: name and id
	Sets   string `json:"sets,omitempty"`   // settings of the PF for its VF, for people
}

// Uplink is a job's way to other networks.
type Uplink struct {
	Interface string         `json:"interface"`         // its name in the job
	Type      string         `json:"type"`              // veth or macvlan
	Address   netip.Addr     `json:"address"`           // the job's address, if no other job takes it first
	Gateway   string         `json:"gateway,omitempty"` // gateway of its routes
	Routes    []netip.Prefix `json:"routes,omitempty"`  // networks that it leads to
}

// Overlay is the network between a job's nodes.
type Overlay struct {
	Interface string       `json:"interface"` // its name in the job
	Address   netip.Prefix `json:"address"`   // the job's address on this node
	MTU       int          `json:"mtu"`       // MTU of the interface
	Nodes     []Node       `json:"nodes"`     // the job's nodes, in Slurm's order
}

// Node is a node of a job.
type Node struct {
	Name    string     `json:"name"`         // Slurm's name for it
	Address netip.Addr `json:"address"`      // the address in the job
	At      string     `json:"at,omitempty"` // the node's own address; only of other nodes
}

// Finding is what a check found of one thing.
type Finding struct {
	Level string `json:"level"`         // ok, warning or error
	About string `json:"about"`         // the file, table or HCA
	Text  string `json:"text"`          // what is wrong, or right
	Do    string `json:"do,omitempty"`  // what to do about it
	ID    string `json:"id,omitempty"`  // id of the message, for gresnet explain
	HCA   *HCA   `json:"hca,omitempty"` // its HCA: name and id
}

// String returns the finding as one line.
func (f Finding) String() string {
	line := fmt.Sprintf("%-8s %s: %s", f.Level, f.About, f.Text)
	if f.Do != "" {
		line += "; " + f.Do
	}
	return line + hint.Tag(f.ID)
}

// The levels of findings.
const (
	OK      = "ok"
	Warning = "warning" // it may be meant so
	Error   = "error"   // jobs or the node will fail
)

// Well returns a finding that nothing is wrong.
func Well(about, format string, a ...any) Finding {
	return Finding{Level: OK, About: about, Text: fmt.Sprintf(format, a...)}
}

// Warn returns a warning. do is what to do, after the message's id.
func Warn(about, do, format string, a ...any) Finding {
	return found(Warning, about, do, fmt.Sprintf(format, a...))
}

// Fail returns an error.
func Fail(about, do, format string, a ...any) Finding {
	return found(Error, about, do, fmt.Sprintf(format, a...))
}

// FailBy returns an error that has a hint of its own.
func FailBy(about string, err error) Finding {
	return found(Error, about, hint.Whole(err), err.Error())
}

func found(level, about, do, text string) Finding {
	id, do := hint.Cut(do)
	return Finding{Level: level, About: about, Text: text, Do: do, ID: id}
}

// Of returns the finding as one that is about an HCA.
func (f Finding) Of(name string, id node.ID) Finding {
	h := Bare(name, id)
	f.HCA = &h
	return f
}

// Names has the names of an address.
type Names struct {
	Address netip.Addr `json:"address"` // the address in the job
	Names   []string   `json:"names"`   // names of this address
}
