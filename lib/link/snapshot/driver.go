package snapshot

import (
	"golang.org/x/sys/unix"

	"gresnet/lib/link"
	"gresnet/lib/link/ethtool"
)

// Driver is what a driver keeps for an interface as long as there is one. A move leaves
// it alone; an interface that is made again has the driver's defaults.
type Driver struct {
	TxQueues int `json:"tx_queues,omitempty"`
	RxQueues int `json:"rx_queues,omitempty"`
	ethtool.Settings
	Files map[string]string `json:"files,omitempty"` // of its queues, below /sys/class/net/NAME; only on the node
}

// Remade completes the settings of an interface that is about to be made again by what
// its driver has kept until then. It says why a P_Key child, which is made again, too,
// could not be as it is, if it could not: while its RDMA device stays, so does the child.
func (c *Conn) Remade(index int, s *Settings) error {
	i, err := c.Look(index)
	if err != nil {
		return err
	}
	return c.remade(i, s)
}

func (c *Conn) remade(i link.Described, s *Settings) (err error) {
	s.Driver = &Driver{TxQueues: int(i.List.Number(unix.IFLA_NUM_TX_QUEUES)), RxQueues: int(i.List.Number(unix.IFLA_NUM_RX_QUEUES))}
	if s.Driver.Settings, err = c.Ethtool.Read(i.Index, i.Name); err != nil {
		return err
	}
	if s.Driver.Files, err = c.queues(i.Interface).Read(); err != nil {
		return err
	}
	for k := range s.Children {
		child := &s.Children[k]
		if !child.ID.IsPKeyChild() {
			continue
		}
		i, err := c.Look(child.Index)
		if err != nil {
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

// applyDriver sets what the driver has otherwise than before, but for the files of the queues.
func applyDriver(c *Conn, g *giving) error {
	if g.want.Driver == nil {
		return nil
	}
	return c.Ethtool.Apply(g.i.Index, g.want.Name, g.want.Driver.Settings)
}

// differDriver names what of an interface that was made again is not as it was.
func differDriver(c *Conn, o comparing) ([]string, error) {
	if o.want.Driver == nil {
		return nil, nil
	}
	have, err := c.Ethtool.Read(o.index, o.have.Name)
	if err != nil {
		return nil, err
	}
	return have.Differences(o.want.Driver.Settings), nil
}

// queues returns an interface as the package of that name has it.
func (c *Conn) queues(i link.Interface) ethtool.Queues {
	return ethtool.Queues{Index: i.Index, Name: i.Name, Up: i.Up, Now: func() (string, error) {
		now, err := c.Get(i.Index)
		return now.Name, err
	}}
}

// queueFiles returns the files of the queues of an interface that is made again.
func (want Settings) queueFiles() map[string]string {
	if want.Driver == nil {
		return nil
	}
	return want.Driver.Files
}

// applyQueueFiles writes the files that are not as they were. An interface that could not
// have its name has its files under another one.
func applyQueueFiles(c *Conn, g *giving) error {
	files := g.want.queueFiles()
	if len(files) == 0 {
		return nil
	}
	i, err := c.Get(g.i.Index)
	if err != nil {
		return err
	}
	return c.queues(i).Apply(files)
}

func differQueueFiles(c *Conn, o comparing) ([]string, error) {
	files := o.want.queueFiles()
	if len(files) == 0 {
		return nil, nil
	}
	return c.queues(link.Interface{Index: o.index, Name: o.have.Name, Up: o.have.Up}).Differences(files)
}
