package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/state/lock"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
)

// split is an HCA that jobs have parts of.
type split struct {
	id    node.ID
	index uint32         // of the RDMA device
	parts map[string]int // found.HCAs, by the job's namespace

	process *detach.Process
	said    []rdma.Statistic
}

// statistics asks the kernel what a driver counts for queue pairs, aside: it asks the firmware for it.
var statistics = detach.New("gresnet-stat", func(args []string, say detach.Say) error {
	conn, err := rdma.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	index, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return err
	}
	return conn.Statistics(uint32(index), func(s rdma.Statistic) error {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return say(string(text), -1)
	})
})

// begin has a process of its own ask, in the calling thread's namespace.
func (s *split) begin(locks string) error {
	held, err := lock.TryLook(locks, s.id)
	if err != nil {
		return err
	}
	s.process, err = statistics.Start(held.File, strconv.FormatUint(uint64(s.index), 10))
	return hint.Join(err, held.Close()) // the process holds it
}

// end hears what the process says until then.
func (s *split) end(until time.Time) error {
	_, err := s.process.Listen(until, 0, func(text string, _ int) error {
		var one rdma.Statistic
		err := json.Unmarshal([]byte(text), &one)
		s.said = append(s.said, one)
		return err
	})
	if errors.Is(err, io.EOF) {
		return nil // no such device, or a kernel that counts nothing
	}
	return err
}

// share gives each job what is counted for its processes: those in its namespace.
func (s *split) share(hcas []HCA) {
	for _, one := range s.said {
		ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", one.PID))
		if err != nil {
			continue // it has ended
		}
		if part, is := s.parts[ns.String()]; is {
			hcas[part].addQP(one)
		}
		ns.Close()
	}
}

// addQP adds what is counted for some of the job's queue pairs.
func (h *HCA) addQP(s rdma.Statistic) {
	if h.QPs == nil {
		h.QPs = map[QP]uint64{}
	}
	for name, value := range s.Counters {
		h.QPs[QP{s.Port, name}] += value
	}
}
