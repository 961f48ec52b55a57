package report

import (
	"net/netip"
	"time"

	"gresnet/lib/event"
	"gresnet/lib/inspect"
	"gresnet/lib/inventory"
	"gresnet/lib/node"
	"gresnet/lib/overlay"
	"gresnet/lib/pkey"
	"gresnet/lib/plan"
	"gresnet/lib/step"
	"gresnet/lib/table"
)

// String is for people, as that of node.ID is.
func (id ID) String() string { return node.ID(id).String() }

// Bare is an HCA with a name and an identity, and nothing else.
func Bare(name string, id node.ID) HCA {
	h := HCA{Name: name}
	if id != (node.ID{}) {
		is := ID(id)
		h.ID = &is
	}
	return h
}

// known is an HCA as the node table has it.
func known(n node.HCA) HCA {
	h := Bare(n.Name, n.ID)
	h.GUID, h.Function, h.Driver = n.GUID, n.Function, n.Driver
	for _, p := range n.Ports {
		h.Ports = append(h.Ports, portOf(p))
	}
	return h
}

// pkeyOf is a P_Key, empty if there is none.
func pkeyOf(k pkey.PKey) string {
	if k == 0 {
		return ""
	}
	return k.String()
}

func portOf(p node.Port) Port {
	return Port{Num: p.Num, LinkLayer: p.LinkLayer, State: p.State, Interface: p.Interface}
}

// number gives an HCA its GRES, if it has one.
func (h *HCA) number(gres, kind string, index int) {
	if gres != "" {
		h.Gres, h.Type, h.Index = gres, kind, &index
	}
}

func claimOf(c *table.Claim) *Claim {
	if c == nil {
		return nil
	}
	return &Claim{Job: c.Job, Run: c.Run, UID: c.UID, Since: c.Since, Quarantined: c.Quarantined, Doubt: c.Doubt}
}

// ScanOf is an inventory.
func ScanOf(s inventory.Inventory) *Scan {
	d := &Scan{Mode: string(s.Mode), HCAs: []HCA{}}
	for _, g := range s.GPUs {
		d.GPUs = append(d.GPUs, GPU{g.PCI, g.NUMA})
	}
	for _, i := range s.HCAs {
		d.HCAs = append(d.HCAs, scanned(i))
	}
	return d
}

func scanned(i inventory.HCA) HCA {
	h := Bare(i.Name, i.ID)
	h.GUID, h.Function, h.Driver = i.GUID, i.Function, i.Driver
	h.number(i.Gres, i.Type, i.Index)
	h.Part, h.PKey = i.Part, pkeyOf(i.PKey)
	h.Keep, h.Take, h.NUMA, h.Cores, h.Serves, h.Away, h.Claim = i.Keep, i.Take, &i.NUMA, i.Cores, i.Serves, i.Away, claimOf(i.Held)
	if i.VFs != nil {
		h.VFs = &VFs{i.VFs.Now, i.VFs.Total, i.VFs.Switchdev}
	}
	for _, p := range i.Ports {
		port := portOf(p.Port)
		port.Rate = p.Rate
		for _, k := range p.PKeys {
			port.PKeys = append(port.PKeys, k.String())
		}
		h.Ports = append(h.Ports, port)
	}
	for _, c := range i.Chars {
		h.Chars = append(h.Chars, Char{c.Kind, c.Port, c.Name})
	}
	for _, l := range i.Distance {
		h.Distance = append(h.Distance, string(l))
	}
	return h
}

// StatusOf is a status.
func StatusOf(s inspect.Status) *Status {
	d := &Status{HCAs: []HCA{}, Leases: []Lease{}}
	for _, i := range s.HCAs {
		h := known(i.HCA)
		h.number(i.Gres, "", i.Index)
		h.PKey = pkeyOf(i.PKey)
		h.State, h.Claim, h.Moving, h.Gone, h.Missing, h.User = i.State(), claimOf(i.Claim), i.Moving, i.Gone, i.Missing, i.User
		d.HCAs = append(d.HCAs, h)
	}
	for _, l := range s.Leases {
		lease := Lease{Job: l.Job, Run: l.Run, State: l.State, Age: l.Age, Uplink: l.Uplink}
		for _, p := range l.Steps {
			lease.Steps = append(lease.Steps, Process{p.PID, p.Name})
		}
		for _, left := range l.Left {
			lease.Left = append(lease.Left, Step{Kind: left.Kind, Object: left.Object})
		}
		d.Leases = append(d.Leases, lease)
	}
	for _, o := range s.Deferred {
		d.Owed = append(d.Owed, Owed(o))
	}
	return d
}

// PlanOf is what a job would have.
func PlanOf(notes []string, p inspect.Preview) *Plan {
	d := &Plan{Notes: notes, Isolation: p.Isolation, HCAs: []HCA{}, Steps: []Step{}}
	bare := map[node.ID]HCA{}
	for i, e := range p.Entries {
		bare[e.HCA.ID] = Bare(e.HCA.Name, e.HCA.ID)
		h := planned(p.HCAs[i])
		h.number(e.Gres, e.Type, e.Index)
		h.Keep, h.Part = e.Keep && e.Slot == nil, e.Part
		d.HCAs = append(d.HCAs, h)
	}
	for _, s := range p.Steps {
		d.Steps = append(d.Steps, stepOf(s, bare))
	}
	if u := p.Uplink; u != nil {
		d.Uplink = &Uplink{Interface: u.Pool.Name, Type: u.Type, Address: u.Address, Routes: u.Pool.Routes}
		if u.Pool.Gateway.IsValid() {
			d.Uplink.Gateway = u.Pool.Gateway.String()
		}
	}
	if p.Overlay != nil {
		d.Overlay = overlayOf(p.Overlay)
		if len(p.Names) > 0 {
			d.Names = []Names{{p.Overlay.Address(), p.Names}}
		}
	}
	return d
}

// planned is an HCA with the addresses that its interfaces have in the job.
func planned(p plan.HCA) HCA {
	h := Bare(p.Name, p.ID)
	for _, at := range p.Ports {
		if k, is := p.PKeys[at.Num]; is {
			h.PKey = pkeyOf(k.PKey)
		}
		port := Port{Num: at.Num, LinkLayer: at.LinkLayer, State: at.State}
		if at.Interface != nil {
			port.Interface = at.Interface.Name
		}
		for _, s := range p.Interfaces {
			if s.Port != at.Num || p.Keep {
				continue
			}
			for _, a := range s.Settings.Addresses {
				port.Addresses = append(port.Addresses, a.Addr())
			}
		}
		for _, c := range p.Children {
			if c.Port == at.Num {
				port.Interface, port.Addresses = c.Name, nil // programs are told of this one
			}
			if c.Port == at.Num && c.Link.Address.IsValid() {
				port.Addresses = append(port.Addresses, c.Link.Address)
			}
		}
		h.Ports = append(h.Ports, port)
	}
	return h
}

func stepOf(s step.Step, bare map[node.ID]HCA) Step {
	d := Step{Kind: s.Kind(), Object: s.Object()}
	if h, is := bare[s.HCA()]; is {
		d.HCA = &h
	}
	if vf, is := s.(*step.VF); is {
		d.Sets = vf.Want.String()
	}
	if r, is := s.(*step.Rebind); is {
		d.Sets = r.Want.String()
	}
	return d
}

func overlayOf(n *overlay.Network) *Overlay {
	d := &Overlay{Interface: n.Link.Name, Address: n.Link.Address, MTU: n.Link.MTU}
	at := map[netip.Addr]string{}
	for _, p := range n.Link.Peers {
		at[p.Address] = p.Node.String()
	}
	for _, o := range n.Nodes {
		d.Nodes = append(d.Nodes, Node{Name: o.Name, Address: o.Address, At: at[o.Address]})
	}
	return d
}

// JobLines are the lines of all jobs whose HCAs a run brought home. A sweep may have several.
func JobLines(now time.Time, cluster, node string, events []event.Event) (lines []*JobLine) {
	var line *JobLine
	for _, e := range events {
		if e.Kind != event.Traffic || e.Port == nil {
			continue
		}
		if line == nil || line.Job != e.Job || line.Run != e.Run {
			line = &JobLine{Time: now.UTC().Truncate(time.Second), Cluster: cluster, Node: node, Job: e.Job, Run: e.Run}
			lines = append(lines, line)
		}
		h := Bare(e.Device, e.Identity)
		if last := len(line.HCAs) - 1; last < 0 || *line.HCAs[last].ID != *h.ID {
			line.HCAs = append(line.HCAs, h)
		}
		of := &line.HCAs[len(line.HCAs)-1]
		of.Ports = append(of.Ports, carried(e))
	}
	return lines
}

// carried is a port with what it carried.
func carried(e event.Event) Port {
	p := Port{Num: e.Port.Port, Hardware: e.Port.Hardware}
	if v := e.Port.Volume; v != nil {
		p.SentBytes, p.ReceivedBytes, p.SentPackets, p.ReceivedPackets = &v.SentBytes, &v.ReceivedBytes, &v.SentPackets, &v.ReceivedPackets
	}
	return p
}
