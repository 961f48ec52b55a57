package rdma

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Statistic is what a driver counts for some queue pairs of one process, as `rdma statistic qp` shows it.
type Statistic struct {
	Port, PID uint32
	Counters  map[string]uint64
}

const (
	cmdStatGet = 17

	attrResQP          = 19
	attrStatRes        = 75
	attrStatCounter    = 77
	attrStatHWCounters = 80
	attrStatName       = 82
	attrStatValue      = 83
)

// Statistics calls each for what a device counts for queue pairs: nothing where the driver cannot, or where
// nobody has it count (`rdma statistic qp set link mlx5_0/1 auto pid on`). The kernel asks the firmware,
// which may not answer.
func (c *Conn) Statistics(index uint32, each func(Statistic) error) error {
	request := netlink.AppendUint32(ofDevice(index), attrStatRes, attrResQP)
	err := c.socket.Each(clientNldev<<10|cmdStatGet, unix.NLM_F_DUMP, 0, request, func() {}, func(answer []byte) error {
		return readStatistics(answer, each)
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil // a kernel that does not tell
	}
	if err != nil {
		return fmt.Errorf("read the statistics of RDMA device %d: %w", index, err)
	}
	return nil
}

// readStatistics reads one message of a dump. What is about the kernel's own queue pairs has no process.
func readStatistics(answer []byte, each func(Statistic) error) (failed error) {
	attributes, err := netlink.Parse(answer)
	if err != nil {
		return err
	}
	err = entries(attributes.Value(attrStatCounter), func(entry netlink.Attributes) {
		s := Statistic{Port: uint32(entry.Number(attrPortIndex)), PID: uint32(entry.Number(attrResPID)), Counters: map[string]uint64{}}
		err := entries(entry.Value(attrStatHWCounters), func(counter netlink.Attributes) {
			s.Counters[counter.Text(attrStatName)] = counter.Number(attrStatValue)
		})
		if err == nil && s.PID != 0 {
			err = each(s)
		}
		if failed == nil {
			failed = err
		}
	})
	if err != nil {
		return err
	}
	return failed
}
