package ports

import (
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/bpf"
)

// The programs, as clang makes them of ports.c: `go test ./lib/kernel/ports -update`.
//
//go:embed ports.o
var image []byte

// Grain is how many ports are one job's at least: a block begins and ends at a multiple of it.
const Grain = 512

// These types are in ports.c, too. Addresses are in network order, numbers in the machine's.
type (
	address [4]byte

	node struct {
		Uplink, SlurmUser   uint32
		First, Last         uint16 // ephemeral
		SrunFirst, SrunLast uint16
	}
	job struct {
		Address     address
		User        uint32
		First, Last uint16
		ID          uint32
		MAC         [6]byte
		Whole       bool // it has all ports that nobody has, unless a later job has them
		_           byte
		Dropped     uint64
	}
	uplink struct {
		Address address
		Header  uint32
		MTU     uint32
	}
	alias struct {
		Veth    uint32
		Address address
	}
	network struct {
		Bits    uint32
		Address address
	}
	key struct {
		Peer address
		ID   uint16
		Kind uint8
		Of   uint8
	}
)

// sized returns the layout of a map.
func sized[K, V any](kind, entries, flags uint32) bpf.Layout {
	var k K
	var v V
	return bpf.Layout{Kind: kind, Key: uint32(unsafe.Sizeof(k)), Value: uint32(unsafe.Sizeof(v)), Entries: entries, Flags: flags}
}

// layouts has all maps of the programs.
var layouts = map[string]bpf.Layout{
	"node":     sized[uint32, node](unix.BPF_MAP_TYPE_ARRAY, 1, 0),
	"whole":    sized[uint32, uint32](unix.BPF_MAP_TYPE_ARRAY, 1, 0),
	"blocks":   sized[uint32, uint32](unix.BPF_MAP_TYPE_ARRAY, 1<<16/Grain, 0),
	"jobs":     sized[uint32, job](unix.BPF_MAP_TYPE_HASH, 256, 0),
	"uplinks":  sized[uint32, uplink](unix.BPF_MAP_TYPE_HASH, 64, 0),
	"locals":   sized[address, uint8](unix.BPF_MAP_TYPE_HASH, 4096, unix.BPF_F_NO_PREALLOC),
	"services": sized[uint16, uint8](unix.BPF_MAP_TYPE_HASH, 256, 0),
	"callers":  sized[network, uint8](unix.BPF_MAP_TYPE_LPM_TRIE, 16384, unix.BPF_F_NO_PREALLOC),
	"denied":   sized[network, uint8](unix.BPF_MAP_TYPE_LPM_TRIE, 256, unix.BPF_F_NO_PREALLOC),
	"aliases":  sized[alias, address](unix.BPF_MAP_TYPE_HASH, 1<<18, unix.BPF_F_NO_PREALLOC),
	"recent":   sized[key, uint32](unix.BPF_MAP_TYPE_LRU_HASH, 4096, 0),
	"counts":   sized[uint32, uint64](unix.BPF_MAP_TYPE_ARRAY, 8, 0),
}

// Node is where a node's programs and maps are pinned.
type Node struct {
	Pins string // a folder on a BPF file system
}

// In returns the one below a folder of a BPF file system.
func In(pins string) Node { return Node{Pins: filepath.Join(pins, "ports")} }

func (n Node) open(name string) (bpf.Map, error) { return bpf.OpenMap(filepath.Join(n.Pins, name)) }

func (n Node) filter(name string) (bpf.Filter, error) {
	return bpf.OpenFilter(filepath.Join(n.Pins, name))
}

// with opens a map for a function.
func with[T any](n Node, name string, f func(bpf.Map) (T, error)) (result T, err error) {
	m, err := n.open(name)
	if err != nil {
		return result, err
	}
	defer m.Close()
	return f(m)
}

// isThere tells whether the programs are pinned.
func (n Node) isThere() (bool, error) {
	_, err := os.Lstat(n.Pins)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// A folder beside the pins has those of a run that makes or removes them, or was killed meanwhile. The file system takes no
// dots.
func (n Node) aside() string { return n.Pins + "-aside-" }

// load makes the maps, loads the programs and pins all of them, unless they are there. Of several runs at once, one wins.
func (n Node) load() error {
	parent := filepath.Dir(n.Pins)
	err := bpf.CanPin(filepath.Dir(parent))
	if err == nil {
		err = bpf.MakeFolder(parent)
	}
	if err != nil {
		return fmt.Errorf("pin the programs of the node's ports: %w", err)
	}
	if there, err := n.isThere(); there || err != nil {
		return err
	}
	half, err := os.MkdirTemp(parent, filepath.Base(n.aside()))
	if err != nil {
		return err
	}
	err = n.pin(half)
	if err == nil {
		err = os.Rename(half, n.Pins)
	}
	if err == nil {
		return nil
	}
	if there, _ := n.isThere(); there {
		err = nil
	}
	if err = hint.Join(err, os.RemoveAll(half)); err != nil {
		return fmt.Errorf("pin the programs of the node's ports: %w", err)
	}
	return nil
}

// Forget removes the pins, and those of runs that were killed. Call it while no job has an uplink.
func (n Node) Forget() error {
	err := n.tidy()
	// First their name goes: no run finds half of them.
	if err == nil {
		err = os.Rename(n.Pins, n.aside())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = n.tidy()
	}
	return errors.Join(err, bpf.RemoveFolder(filepath.Dir(n.Pins)))
}

// Keep loads the programs where no job needs them yet, and has them stay when the last job ends: to load them takes longer
// than all else of a job's network. Call it while no job has an uplink.
func (n Node) Keep() error {
	if err := n.Refresh(); err != nil {
		return err
	}
	if err := n.load(); err != nil {
		return err
	}
	if n.isKept() {
		return nil
	}
	_, err := with(n, "node", func(m bpf.Map) (struct{}, error) { return struct{}{}, m.Pin(n.mark()) })
	return err
}

// Refresh removes programs that are not kept, or that another version of gresnet kept. Call it while no job has an uplink.
func (n Node) Refresh() error {
	if there, err := n.isThere(); !there || err != nil || n.isKept() {
		return err
	}
	return n.Forget()
}

// mark returns where the pin is of programs that this version keeps.
func (n Node) mark() string {
	return filepath.Join(n.Pins, fmt.Sprintf("kept-%x", sha256.Sum256(image))[:len("kept-")+12])
}

func (n Node) isKept() bool {
	_, err := os.Lstat(n.mark())
	return err == nil
}

// rest readies kept programs for the next first job.
func (n Node) rest() error {
	return errors.Join(
		settle(n, "callers", map[network]uint8{}),
		settle(n, "uplinks", map[uint32]uplink{}),
		n.changeNode(func(v *node) { *v = node{} }))
}

func (n Node) tidy() error {
	all, err := filepath.Glob(n.aside() + "*")
	for _, path := range all {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// pin pins maps and programs in a folder.
func (n Node) pin(folder string) error {
	maps := map[string]bpf.Map{}
	defer func() {
		for _, m := range maps {
			m.Close()
		}
	}()
	for name, l := range layouts {
		m, err := bpf.MakeMap(l)
		if err != nil {
			return fmt.Errorf("%s of the node's ports: %w", name, err)
		}
		maps[name] = m
		if err := m.Pin(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	filters, err := bpf.LoadFilters(image, maps)
	if err != nil {
		return err
	}
	for name, f := range filters {
		err = errors.Join(err, f.Pin(filepath.Join(folder, name)), f.Close())
	}
	return err
}

func of(a netip.Addr) address { return a.As4() }

func (a address) addr() netip.Addr { return netip.AddrFrom4(a) }

func networkOf(p netip.Prefix) network {
	return network{Bits: uint32(p.Bits()), Address: of(p.Masked().Addr())}
}

// settle makes a map have these entries and no others.
func settle[K comparable, V comparable](n Node, name string, want map[K]V) error {
	if err := add(n, name, want); err != nil {
		return err
	}
	_, err := with(n, name, func(m bpf.Map) (struct{}, error) {
		had, err := bpf.Keys[K](m)
		for _, k := range had {
			if _, stays := want[k]; err == nil && !stays {
				err = bpf.Delete(m, k)
			}
			if errors.Is(err, unix.ENOENT) { // another prolog was first
				err = nil
			}
		}
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("write %s of the node's ports: %w", name, err)
	}
	return nil
}

// add makes a map have these entries, beside those that it has: other jobs that run may need them.
func add[K comparable, V comparable](n Node, name string, want map[K]V) error {
	_, err := with(n, name, func(m bpf.Map) (struct{}, error) {
		for k, v := range want {
			if is, err := bpf.Get[K, V](m, k); err == nil && is == v {
				continue
			}
			if err := bpf.Put(m, k, v); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("write %s of the node's ports: %w", name, err)
	}
	return nil
}

// changeNode changes what all programs know of the node.
func (n Node) changeNode(f func(*node)) error {
	_, err := with(n, "node", func(m bpf.Map) (struct{}, error) {
		v, err := bpf.Get[uint32, node](m, 0)
		if err == nil {
			f(&v)
			err = bpf.Put(m, uint32(0), v)
		}
		return struct{}{}, err
	})
	return err
}
