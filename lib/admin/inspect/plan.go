package inspect

import (
	"context"
	"net/netip"
	"os"

	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/network"
	"gresnet/lib/network/jobnet"
)

// Ask asks the site's sources what a job is entitled to, for one who only wants to know.
func Ask(ctx context.Context, n *host.Host, j job.Job) (wants []gres.Want, notes []string, err error) {
	return source.Ask(ctx, j, n.Config, n.Local(n.Mapping))
}

// preview is what a prolog would do for a job now, and what the job would have then.
type preview struct {
	Isolation string          // as config.Access has it; empty: the job gets nothing
	Entries   []gres.Entry    // that it would claim
	HCAs      []step.HCA      // the same
	Uplink    *network.Uplink // nil: none
	Overlay   *jobnet.Network
	Names     []string    // that mean the node's address in the job and not on the node
	Steps     []step.Step // in order
}

// Plan returns what a prolog would do for a job, and what the job would have: nothing without wants. Plan
// changes nothing and takes no lock: meanwhile another job may claim what is free now.
func Plan(ctx context.Context, n *host.Host, j job.Job, wants []gres.Want) (*report.Plan, error) {
	var v preview
	if len(wants) == 0 {
		return planOf(v), nil
	}
	t, err := n.Known()
	if err != nil {
		return nil, err
	}
	u, err := n.Users()
	if err != nil {
		return nil, err
	}
	defer u.Close()
	p, err := n.Pick(&t, j, wants, u)
	if err != nil {
		return nil, err
	}
	if len(p.Entries) == 0 {
		return planOf(v), nil
	}
	l, done, err := n.LookFor(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	defer done()
	access := n.Access(j)
	pool, err := l.PoolFor(j, access)
	if err != nil {
		return nil, err
	}
	if err := host.PickUplink(&t, pool, j.ID, j.Run.String()); err != nil {
		return nil, err
	}
	mode, hcas, err := l.Read(j, access, p)
	if err != nil {
		return nil, err
	}
	v.Overlay, err = l.Network(ctx, j, access)
	if err != nil {
		return nil, err
	}
	if hosts, err := os.ReadFile("/etc/hosts"); err == nil && v.Overlay != nil {
		_, v.Names = environment.Hosts(string(hosts), v.Overlay.Address())
	}
	v.Isolation, v.Entries, v.HCAs = access.Isolation, p.Entries, hcas
	over, up := network.Plan(n.Config, j.UID, pool, t.Uplink(j.ID, j.Run.String()), v.Overlay)
	v.Uplink = up
	v.Steps = append([]step.Step{&step.Claim{}}, step.Plan(j, mode, access, v.Uplink, over, hcas)...)
	return planOf(v), nil
}

// planOf returns what a job would have.
func planOf(p preview) *report.Plan {
	d := &report.Plan{Isolation: p.Isolation, HCAs: []report.HCA{}, Steps: []report.Step{}}
	bare := map[node.ID]report.HCA{}
	for i, e := range p.Entries {
		bare[e.HCA.ID] = report.Bare(e.HCA.Name, e.HCA.ID)
		h := planned(p.HCAs[i])
		h.Have(e.Gres, e.Type, e.Index)
		h.Keep, h.Part = e.Keep && e.Slot == nil, e.Part
		d.HCAs = append(d.HCAs, h)
	}
	for _, s := range p.Steps {
		d.Steps = append(d.Steps, stepOf(s, bare))
	}
	if u := p.Uplink; u != nil {
		d.Uplink = &report.Uplink{Interface: u.Pool.Name, Type: u.Type, Address: u.Address, Routes: u.Pool.Routes}
		if u.Pool.Gateway.IsValid() {
			d.Uplink.Gateway = u.Pool.Gateway.String()
		}
	}
	if p.Overlay != nil {
		d.Overlay = overlayOf(p.Overlay)
		if len(p.Names) > 0 {
			d.Names = []report.Names{{Address: p.Overlay.Address(), Names: p.Names}}
		}
	}
	return d
}

// planned returns an HCA with the addresses that its interfaces have in the job.
func planned(p step.HCA) report.HCA {
	h := report.Bare(p.Name, p.ID)
	for _, at := range p.Ports {
		if k, is := p.PKeys[at.Num]; is {
			h.PKey = node.PKeyText(k.PKey)
		}
		port := report.Port{Num: at.Num, LinkLayer: at.LinkLayer, State: at.State}
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

func stepOf(s step.Step, bare map[node.ID]report.HCA) report.Step {
	d := report.Step{Kind: s.Kind(), Object: s.Object()}
	if h, is := bare[s.HCA()]; is {
		d.HCA = &h
	}
	if says, is := s.(interface{ Sets() string }); is {
		d.Sets = says.Sets()
	}
	return d
}

func overlayOf(n *jobnet.Network) *report.Overlay {
	d := &report.Overlay{Interface: n.Link.Name, Address: n.Link.Address, MTU: n.Link.MTU}
	at := map[netip.Addr]string{}
	for _, p := range n.Link.Peers {
		at[p.Address] = p.Node.String()
	}
	for _, o := range n.Nodes {
		d.Nodes = append(d.Nodes, report.Node{Name: o.Name, Address: o.Address, At: at[o.Address]})
	}
	return d
}
