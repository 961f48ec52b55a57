package link

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
	"gresnet/lib/netlink"
)

// Driver is what a driver keeps for an interface as long as there is one. A move leaves
// it alone; an interface that is made anew has the driver's defaults.
type Driver struct {
	TxQueues int                `json:"tx_queues,omitempty"`
	RxQueues int                `json:"rx_queues,omitempty"`
	Features []string           `json:"features,omitempty"` // that were asked for, sorted; not all can be had
	Ethtool  map[string]Message `json:"ethtool,omitempty"`  // attributes by the name of their kind
	Files    map[string]string  `json:"files,omitempty"`    // of its queues, below /sys/class/net/NAME; home only
}

// Remade completes the settings of an interface that is about to be made anew by what
// its driver has kept until then. It says why a P_Key child, which is made anew, too,
// could not be as it is, if it could not: while its RDMA device stays, so does the child.
func (c *Conn) Remade(index int, s *Settings) error {
	i, err := c.look(index)
	if err != nil {
		return err
	}
	return c.remade(i, s)
}

func (c *Conn) remade(i described, s *Settings) (err error) {
	if s.Driver, err = c.driver(i.Index, i.Name); err != nil {
		return err
	}
	s.Driver.TxQueues, s.Driver.RxQueues = int(i.list.Number(unix.IFLA_NUM_TX_QUEUES)), int(i.list.Number(unix.IFLA_NUM_RX_QUEUES))
	if s.Driver.Files, err = c.queueFiles(i.Interface); err != nil {
		return err
	}
	for k := range s.Children {
		child := &s.Children[k]
		if !child.ID.isPKeyChild() {
			continue
		}
		i, err := c.look(child.Index)
		if err != nil {
			return err
		}
		if child.Settings.Mirrors, err = c.mirrors(child.Index); err != nil {
			return err
		}
		if err := c.refuse(i, child.Settings); err != nil {
			return err
		}
		if err := c.remade(i, &child.Settings); err != nil {
			return err
		}
	}
	return nil
}

// driver reads what ethtool tells.
func (c *Conn) driver(index int, name string) (*Driver, error) {
	d := &Driver{Ethtool: map[string]Message{}}
	var err error
	if d.Features, err = c.features(index); err != nil {
		return nil, fmt.Errorf("read the features of %s: %w", name, err)
	}
	for _, kind := range ethtoolKinds() {
		m, err := c.ethtoolGet(kind, index)
		if err != nil {
			return nil, fmt.Errorf("read the %s of %s: %w", kind.name, name, err)
		}
		if m != nil {
			d.Ethtool[kind.name] = m
		}
	}
	return d, nil
}

// applyDriver sets what of that is not as it was.
func (c *Conn) applyDriver(index int, want Settings) error {
	if want.Driver == nil {
		return nil
	}
	err := c.applyFeatures(index, want.Driver.Features)
	if err != nil {
		err = fmt.Errorf("set the features of %s: %w", want.Name, err)
	}
	for _, kind := range ethtoolKinds() {
		if e := c.applyEthtool(kind, index, want.Driver.Ethtool[kind.name]); e != nil {
			err = hint.Join(err, fmt.Errorf("set the %s of %s: %w", kind.name, want.Name, e))
		}
	}
	return err
}

// applyEthtool sets the attributes of a kind. One may reset others: of coalescing that
// adapts itself mlx5 forgets what else is set with it (mlx5e_ethtool_set_coalesce), so it
// is sent a second time.
func (c *Conn) applyEthtool(kind ethtoolKind, index int, want Message) error {
	for range 2 {
		have, err := c.ethtoolGet(kind, index)
		if err != nil {
			return err
		}
		body := changed(have, want)
		if body == nil {
			return nil
		}
		if err := c.ethtoolSet(kind.set, index, body); err != nil {
			return err
		}
	}
	return nil
}

// driverDifferences names what of an interface that was made anew is not as it was.
func (c *Conn) driverDifferences(i Settings, index int, want *Driver) (diff []string, err error) {
	if want == nil {
		return nil, nil
	}
	have, err := c.driver(index, i.Name)
	if err != nil {
		return nil, err
	}
	for _, f := range lacking(want.Features, have.Features) {
		diff = append(diff, fmt.Sprintf("feature %s is off, was on", f))
	}
	for _, f := range lacking(have.Features, want.Features) {
		diff = append(diff, fmt.Sprintf("feature %s is on, was off", f))
	}
	for _, kind := range ethtoolKinds() {
		if changed(have.Ethtool[kind.name], want.Ethtool[kind.name]) != nil {
			diff = append(diff, kind.name+" are not what they were")
		}
	}
	return diff, nil
}

// changed are the attributes that are wanted and that an interface does not have.
func changed(have, want Message) (m []byte) {
	h, _ := netlink.Parse(have)
	w, _ := netlink.Parse(want)
	for a := range w.All() {
		if v, has := h.Find(a.Type()); !has || !bytes.Equal(v, a.Value) {
			m = netlink.Append(m, a.Kind, a.Value)
		}
	}
	return m
}

// lacking is what of a list is not in another one.
func lacking(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
