package ports

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/bpf"
)

// Block is a range of ports.
type Block struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

func (b Block) String() string { return fmt.Sprintf("%d-%d", b.First, b.Last) }

// Overlaps tells whether two ranges have a port in common.
func (b Block) Overlaps(o Block) bool { return b.First <= o.Last && o.First <= b.Last }

// First is the first port that jobs have: those before it are services' and users'.
const First = 1 << 14

// Ephemeral returns the ports that the namespace's kernel gives to programs which ask for none.
func Ephemeral() (b Block, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &b.First, &b.Last)
	}
	if err != nil {
		return Block{}, fmt.Errorf("read which ports the node's programs get: %w", err)
	}
	return b, nil
}

// Job is what the programs know of a job.
type Job struct {
	ID      uint32
	Veth    int              // the index of its node's end
	MAC     net.HardwareAddr // of its job's end
	Address netip.Addr       // the node's, by which the job is known
	Block   Block
	User    uint32                    // whose processes on the node call the job
	Aliases map[netip.Addr]netip.Addr // by the address of each of the job's nodes: where the job sees its processes
	Whole   bool                      // it also gets what comes for any port that nobody has
	Dropped uint64                    // how many packets it sent from ports that are not its own
}

// Confine has programs judge what goes by the node's end of a veth. Do it before the veth is up. The filters go with
// the veth.
func (n Node) Confine(veth int) error {
	err := n.attach(hook{veth, netlink.HANDLE_MIN_INGRESS, fromJob})
	if err == nil {
		err = n.attach(hook{veth, netlink.HANDLE_MIN_EGRESS, toJob})
	}
	return err
}

// Admit gives a job its block.
func (n Node) Admit(j Job) error {
	if j.Block.First%Grain != 0 || (j.Block.Last+1)%Grain != 0 || j.Block.First < First || j.Block.Last >= 1<<16 {
		return fmt.Errorf("give job %d the ports %s: these are no block", j.ID, j.Block)
	}
	if err := n.enter(j); err != nil {
		return fmt.Errorf("give job %d the ports %s: %w", j.ID, j.Block, err)
	}
	return nil
}

// enter writes the job's entry first, by which Remove finds all else that a killed run has left, and its block last.
func (n Node) enter(j Job) error {
	veth := uint32(j.Veth)
	jobs, err := n.open("jobs")
	if err != nil {
		return err
	}
	defer jobs.Close()
	entry := job{Address: of(j.Address), User: j.User, First: uint16(j.Block.First), Last: uint16(j.Block.Last), ID: j.ID, Whole: j.Whole}
	copy(entry.MAC[:], j.MAC)
	if err := bpf.Put(jobs, veth, entry); err != nil {
		return err
	}
	aliases, err := n.open("aliases")
	if err != nil {
		return err
	}
	defer aliases.Close()
	for at, as := range j.Aliases {
		err := bpf.Put(aliases, alias{veth, of(at)}, of(as))
		if err == nil {
			err = bpf.Put(aliases, alias{veth, of(as)}, of(at))
		}
		if err != nil {
			return err
		}
	}
	if err := n.lead(veth, j.Block); err != nil {
		return err
	}
	if j.Whole {
		return n.setWhole(veth)
	}
	return nil
}

// setWhole makes a job, or none, the one that has all ports that nobody has.
func (n Node) setWhole(veth uint32) error {
	_, err := with(n, "whole", func(m bpf.Map) (struct{}, error) { return struct{}{}, bpf.Put(m, uint32(0), veth) })
	return err
}

// lead leads a block to a job, unless another job has a part of it.
func (n Node) lead(veth uint32, b Block) error {
	blocks, err := n.open("blocks")
	if err != nil {
		return err
	}
	defer blocks.Close()
	for at := b.First / Grain; at <= b.Last/Grain; at++ {
		had, err := bpf.Get[uint32, uint32](blocks, uint32(at))
		if err == nil && had != 0 && had != veth {
			err = fmt.Errorf("the job with interface %d has some of them", had)
		}
		if err == nil {
			err = bpf.Put(blocks, uint32(at), veth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Jobs returns all jobs that have a block.
func (n Node) Jobs() (list []Job, err error) {
	err = n.each(func(veth uint32, v job) {
		list = append(list, Job{
			ID: v.ID, Veth: int(veth), MAC: v.MAC[:], Address: v.Address.addr(), User: v.User, Block: Block{int(v.First), int(v.Last)}, Dropped: v.Dropped,
		})
	})
	return list, err
}

// each calls a function for each entry of a job. Others begin and end meanwhile, and the last one takes the map along.
func (n Node) each(f func(veth uint32, v job)) error {
	_, err := with(n, "jobs", func(m bpf.Map) (struct{}, error) {
		keys, err := bpf.Keys[uint32](m)
		for _, veth := range keys {
			v, gone := bpf.Get[uint32, job](m, veth)
			if err == nil && gone == nil {
				f(veth, v)
			}
			if !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
		return struct{}{}, err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Remove takes the block of the job with a veth away, and forgets the job. It succeeds if there is nothing of it, and does
// what another run has left that was killed.
func (n Node) Remove(veth int) error {
	found := false
	err := n.each(func(at uint32, _ job) { found = found || int(at) == veth })
	if found && err == nil {
		err = n.remove(uint32(veth))
	}
	if err != nil {
		return fmt.Errorf("take the ports of the job with interface %d away: %w", veth, err)
	}
	return nil
}

// remove forgets a job. The entry by which it is found goes last.
func (n Node) remove(veth uint32) error {
	if err := n.endWhole(veth); err != nil {
		return err
	}
	if _, err := with(n, "blocks", func(m bpf.Map) (int, error) { return 0, unblock(m, veth) }); err != nil {
		return err
	}
	if _, err := with(n, "aliases", func(m bpf.Map) (int, error) { return 0, unalias(m, veth) }); err != nil {
		return err
	}
	_, err := with(n, "jobs", func(m bpf.Map) (int, error) { return 0, bpf.Delete(m, veth) })
	return err
}

// endWhole gives all ports that nobody has to another such job, if this one has them. A job that comes meanwhile writes
// its entry and then the map, so a second look finds it if the write here was the later one.
func (n Node) endWhole(veth uint32) error {
	has, err := with(n, "whole", func(m bpf.Map) (uint32, error) { return bpf.Get[uint32, uint32](m, 0) })
	for has == veth && err == nil {
		var next, again uint32
		if next, err = n.other(veth); err == nil {
			err = n.setWhole(next)
		}
		if err == nil {
			again, err = n.other(veth)
		}
		if next == again {
			break
		}
	}
	return err
}

// other returns the veth of another job that has had all ports that nobody has, or 0.
func (n Node) other(veth uint32) (found uint32, err error) {
	err = n.each(func(at uint32, v job) {
		if v.Whole && at != veth {
			found = at
		}
	})
	return found, err
}

func unblock(m bpf.Map, veth uint32) error {
	for at := range uint32(1 << 16 / Grain) {
		had, err := bpf.Get[uint32, uint32](m, at)
		if err == nil && had == veth {
			err = bpf.Put(m, at, uint32(0))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unalias(m bpf.Map, veth uint32) error {
	list, err := bpf.Keys[alias](m)
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.Veth != veth {
			continue
		}
		if err := bpf.Delete(m, a); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// Dropped is how many packets the programs have dropped, by reason.
type Dropped struct {
	Source uint64 `json:"source"` // a job sent from an address that is not its own
	Port   uint64 `json:"port"`   // a job sent from a port that is not its own
	Kind   uint64 `json:"kind"`   // a job sent what is neither TCP nor UDP in plain IPv4 of a fitting length, or somebody sent it what has IP options
	Target uint64 `json:"target"` // a job sent where no job may
	Caller uint64 `json:"caller"` // somebody beyond the node called a job's block, who is none of Slurm's hosts
	User   uint64 `json:"user"`   // another user of the node called it
	Shadow uint64 `json:"shadow"` // somebody on the node sent from a job's block
	Forged uint64 `json:"forged"` // it came from beyond the node with the node's own address
}

// Dropped returns how many packets the programs have dropped since they are there.
func (n Node) Dropped() (d Dropped, err error) {
	if there, err := n.isThere(); !there || err != nil {
		return d, err
	}
	return with(n, "counts", func(m bpf.Map) (Dropped, error) {
		for at, to := range []*uint64{&d.Source, &d.Port, &d.Kind, &d.Target, &d.Caller, &d.User, &d.Shadow, &d.Forged} {
			var err error
			if *to, err = bpf.Get[uint32, uint64](m, uint32(at)); err != nil {
				return Dropped{}, err
			}
		}
		return d, nil
	})
}
