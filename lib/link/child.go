package link

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
	"gresnet/lib/netlink"
)

// Child is an interface that stands on another one. It stays when that is
// moved, but has no carrier then, and is taken down, which costs it IPv6
// addresses and routes. A P_Key child of IPoIB goes when the RDMA device is
// moved, and is made anew.
type Child struct {
	ID       ID       `json:"id"`
	Index    int      `json:"index,omitempty"` // 0 in a note of an earlier version
	PKey     uint16   `json:"pkey,omitempty"`
	Settings Settings `json:"settings"`
}

// returns tells children that outlive the move of what they stand on, or can be
// made anew; others, such as VXLAN and MACsec, are destroyed with it.
func (i Interface) returns() bool {
	return slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}, i.ID.Kind) || i.ID.isPKeyChild()
}

// children are the interfaces of the namespace that stand on the one with an
// index. A veth's peer is called its parent, too, but is none.
func (c *Conn) children(index int) ([]Interface, error) {
	list, err := c.List()
	return slices.DeleteFunc(list, func(i Interface) bool { return i.Parent != index || i.ID.Kind == "veth" }), err
}

func (c *Conn) readChildren(index int) ([]Child, error) {
	list, err := c.children(index)
	if err != nil {
		return nil, err
	}
	var children []Child
	for _, i := range list {
		s, err := c.snapshot(i.Index, nil)
		if err != nil {
			return nil, err
		}
		children = append(children, Child{i.ID, i.Index, i.PKey, s})
	}
	return children, nil
}

// findChild finds a child of the interface with an index, which is home. VLANs and
// ipvlans have their parent's hardware address, so that all are one by their IDs, and may
// get another one with it: those stay, and keep their index. One that somebody has made
// anew has its name. P_Key children are made anew, and each is its ID.
func (c *Conn) findChild(parent int, child Child) (Interface, error) {
	list, err := c.children(parent)
	if err != nil {
		return Interface{}, err
	}
	known := child.Index != 0 && !child.ID.isPKeyChild()
	alike := slices.DeleteFunc(list, func(i Interface) bool {
		return i.ID.Kind != child.ID.Kind || !known && i.ID != child.ID
	})
	for _, same := range []func(Interface) bool{
		func(i Interface) bool { return i.Index == child.Index },
		func(i Interface) bool { return i.Name == child.Settings.Name },
		func(Interface) bool { return len(alike) == 1 && !known },
	} {
		if i := slices.IndexFunc(alike, same); i >= 0 {
			return alike[i], nil
		}
	}
	return Interface{}, fmt.Errorf("child %s: %w", child.Settings.Name, ErrNotFound)
}

// DownChildren takes down what stands on the interface with an index, which is
// to be moved. A move forgets the hardware addresses that the interface takes
// packets for on their behalf (dev.c:__dev_change_net_namespace, dev_uc_flush),
// which they give it when they come up, and believe to be there until they go down.
func (c *Conn) DownChildren(index int) error {
	list, err := c.children(index)
	if err != nil {
		return err
	}
	for _, i := range list {
		if err := c.DownChildren(i.Index); err != nil {
			return err
		}
		if err := c.Down(i.Index); err != nil {
			return fmt.Errorf("bring down %s: %w", i.Name, err)
		}
	}
	return nil
}

// restoreChildren must follow what brings the parent, which has the index, up:
// without it a child can neither be up nor have a carrier.
func (c *Conn) restoreChildren(index int, children []Child, restore func(int, Settings) error) (err error) {
	for _, child := range children {
		i, findErr := c.findChild(index, child)
		if errors.Is(findErr, ErrNotFound) && child.ID.isPKeyChild() {
			i, findErr = c.makePKeyChild(index, child)
		}
		if errors.Is(findErr, ErrNotFound) {
			continue // Differences names it
		}
		if findErr != nil {
			return hint.Join(err, findErr)
		}
		err = hint.Join(err, restore(i.Index, child.Settings))
	}
	return err
}

// makePKeyChild makes an IPoIB interface for a partition, under a name that
// nobody has until it is given its own.
func (c *Conn) makePKeyChild(parent int, child Child) (Interface, error) {
	data := netlink.Append(nil, ipoibPKey, native.AppendUint16(nil, child.PKey))
	info := netlink.Append(nil, unix.IFLA_INFO_KIND, []byte("ipoib"))
	info = netlink.Append(info, unix.IFLA_INFO_DATA|unix.NLA_F_NESTED, data)
	m := netlink.AppendUint32(change(0, false, 0), unix.IFLA_LINK, uint32(parent))
	m = netlink.AppendText(m, unix.IFLA_IFNAME, FreeName)
	if d := child.Settings.Driver; d != nil && d.TxQueues > 0 && d.RxQueues > 0 {
		// By itself the kernel makes it one queue, or as many as there are processors
		// (rtnetlink.c:rtnl_create_link), and mlx5 no child with fewer than its parent has.
		m = netlink.AppendUint32(m, unix.IFLA_NUM_TX_QUEUES, uint32(d.TxQueues))
		m = netlink.AppendUint32(m, unix.IFLA_NUM_RX_QUEUES, uint32(d.RxQueues))
	}
	m = netlink.Append(m, unix.IFLA_LINKINFO|unix.NLA_F_NESTED, info)
	_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m)
	if err != nil {
		return Interface{}, fmt.Errorf("make %s for P_Key %#04x anew: %w", child.Settings.Name, child.PKey, err)
	}
	return c.findChild(parent, child)
}

func (c *Conn) childDifferences(index int, children []Child) ([]string, error) {
	var diff []string
	for _, child := range children {
		name := child.Settings.Name
		i, err := c.findChild(index, child)
		if errors.Is(err, ErrNotFound) {
			diff = append(diff, fmt.Sprintf("child %s is gone", name))
			continue
		}
		if err != nil {
			return nil, err
		}
		more, err := c.Differences(i.Index, child.Settings)
		if err != nil {
			return nil, err
		}
		for _, d := range more {
			diff = append(diff, fmt.Sprintf("child %s: %s", name, d))
		}
	}
	return diff, nil
}
