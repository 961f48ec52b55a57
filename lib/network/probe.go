package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/network/virtual"
)

// probeTable is the nftables table of a probe.
const probeTable = "gresnet_check"

// Lost has packets arrive as from other nodes, and returns those that the node drops before it would take them in. No
// packet leaves the node, and no program gets one. The address is one that no job gets, and host is the node's
// namespace. What Lost makes ends with it: a namespace without a name, the uplink in it, and a table that its socket
// owns.
func Lost(host *netns.NS, address netip.Addr, packets []virtual.Packet) (lost []virtual.Packet, err error) {
	err = netns.Passing(func(job *netns.NS) error {
		p := probe{uplink: virtual.UplinkOf(virtual.Veth, hostEnd(0), address), packets: packets, job: job, host: host}
		lost, err = p.run()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("send packets as a job does: %w", err)
	}
	return lost, nil
}

// probe acts in a namespace like a job's.
type probe struct {
	uplink  virtual.Uplink
	packets []virtual.Packet
	job     *netns.NS
	host    *netns.NS
}

func (p probe) run() (lost []virtual.Packet, err error) {
	var sought []nft.Sought
	for _, one := range p.packets {
		sought = append(sought, nft.Sought{From: one.From, To: one.To, Protocol: one.Protocol, Length: one.Length()})
	}
	var watch *nft.Watch
	err = p.host.Do(func() (err error) {
		if watch, err = nft.NewWatch(probeTable, sought); err != nil {
			return err
		}
		u := p.uplink
		u.Name = "uplink0"
		err = virtual.MakeUplink(u, 0, p.job.FD())
		if err == nil {
			err = virtual.Open(u.Index)
		}
		return err
	})
	if watch != nil {
		defer watch.Close()
	}
	if err != nil {
		return nil, err
	}
	defer func() { // the end of the namespace does it, too, but later
		gone := p.host.Do(func() error { return virtual.DeleteUplink(p.uplink) })
		if !errors.Is(gone, virtual.ErrNotFound) {
			err = hint.Join(err, gone)
		}
	}()
	if err := virtual.Open(p.uplink.Place); err != nil {
		return nil, err
	}
	return p.send(watch)
}

// send sends the packets, and returns those that do not come through.
func (p probe) send(watch *nft.Watch) (lost []virtual.Packet, err error) {
	var indices []int
	for _, one := range p.packets {
		if !slices.Contains(indices, one.By) {
			indices = append(indices, one.By)
		}
	}
	var seen []bool
	for _, by := range indices {
		to, err := p.arriveBy(by)
		if err != nil {
			return nil, err
		}
		var mine []int
		for i, one := range p.packets {
			if one.By == by {
				mine = append(mine, i)
				if err := one.Send(p.uplink, to); err != nil {
					return nil, err
				}
			}
		}
		_, err = new(poll.Budget).Until(poll.Firewall, func() (done bool, err error) {
			seen, err = watch.Seen()
			return err == nil && !slices.ContainsFunc(mine, func(i int) bool { return !seen[i] }), err
		})
		if err != nil {
			return nil, err
		}
	}
	for i, one := range p.packets {
		if !seen[i] {
			lost = append(lost, one)
		}
	}
	return lost, nil
}

// arriveBy has what the namespace sends from now on arrive by an interface of the node, and returns its MAC.
func (p probe) arriveBy(index int) (mac net.HardwareAddr, err error) {
	err = p.host.Do(func() error {
		i, err := net.InterfaceByIndex(index)
		if err != nil {
			return err
		}
		mac = i.HardwareAddr
		program, err := bpf.NewArrival(index)
		if err != nil {
			return err
		}
		defer program.Close()
		return virtual.Confine(p.uplink, program)
	})
	return mac, err
}
