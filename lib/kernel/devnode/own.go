package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/sysfs"
)

// Nodes are the node's own device nodes of HCAs. They are restricted to root, as the site wants it.
type Nodes struct {
	Config config.Config
	Sys    fs.FS  // the node's /sys
	Dev    string // /dev/infiniband
	Known  string // the folder in which Restrict tells udev which HCAs' device nodes it restricts
}

// Restrict restricts the node's own device nodes to root, if the site wants that: the
// folder that they are in, so that nobody can open one between the moment when the kernel makes
// it, open to everybody, and the moment when udev hears of it; and each of them, against whoever
// has the folder or a node open as a path. An epilog does not undo it: leases find the nodes
// restricted, and leave them so. What is restricted already is not touched. If the site wants the nodes
// open, the folder is opened again, if this program restricted it.
//
// udev runs it for each node that is made again, also of an HCA that is away in a job by then: so
// it looks at device nodes, and at no HCA.
func (n Nodes) Restrict() error {
	switch n.Config.Access.Host {
	case config.Open:
		if err := n.known().open(); err != nil {
			return err
		}
		return n.folder().Open()
	case config.Closed:
		return n.restrict()
	}
	return nil // the configuration did not read
}

func (n Nodes) folder() Folder { return Folder(n.Dev) }

func (n Nodes) restrict() error {
	// A list of HCAs leaves others to the node's users.
	if len(n.Config.HCAs) == 0 {
		if err := n.folder().Restrict(); err != nil {
			return fmt.Errorf("restrict %s: %w", n.Dev, err)
		}
	}
	told := n.known()
	if err := told.keepOnly(n.Config.HCAs); err != nil {
		return err
	}
	nodes, err := n.deviceNodes()
	if err != nil {
		return err
	}
	shared, known := false, verdicts{}
	for _, name := range nodes {
		path := Path(n.Dev, name)
		if access, err := Stat(path); err == nil && (access == RootAlone() || isGiven(name, access)) {
			continue // whoever's HCA it is, nobody but root needs the folder for it
		}
		v, err := n.covers(name, known)
		if err == nil && !v.covered {
			v.covered, err = told.isRenamed(n.Sys, name)
		}
		if err == nil && v.covered {
			err = errors.Join(Set(path, RootAlone()), told.add(n.Sys, name))
		}
		// A move makes it again, and with it there is the next event for udev.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restrict the device node %s: %w", name, err)
		}
		shared = shared || err == nil && !v.covered && !v.away
	}
	if shared {
		return n.folder().Open()
	}
	return n.folder().Restrict()
}

// isGiven tells whether a job has a device node of the node's own: one that is not in the folder, which a
// lease replaces. An epilog restores it.
func isGiven(name string, access Access) bool {
	return sysfs.IsHFI(name) && access.UID != 0 && access.Mode == RootAlone().Mode
}

// cm is the device node of RDMA-CM, by which any HCA of the opener's network namespace can be used.
const cm = "rdma_cm"

// deviceNodes returns the names of the HCAs' device nodes, and of RDMA-CM's.
func (n Nodes) deviceNodes() (nodes []string, err error) {
	entries, err := os.ReadDir(n.Dev)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a node without HCAs, or without ib_uverbs
	}
	for _, e := range entries {
		if e.Name() == cm || sysfs.CharClass(e.Name()) != "" {
			nodes = append(nodes, e.Name())
		}
	}
	return append(nodes, sysfs.HFIs(n.Sys)...), err
}

// verdict says of an HCA whether jobs can have it, and whether it is away.
type verdict struct{ covered, away bool }

// verdicts are those of HCAs that were looked at: an HCA with one port has three device nodes.
type verdicts map[sysfs.Owner]verdict

// covers tells whether a device node is of an HCA that jobs can have, or of the PF of such a VF,
// and whether its HCA is away. What the site does not list it uses otherwise.
func (n Nodes) covers(name string, known verdicts) (verdict, error) {
	if len(n.Config.HCAs) == 0 || name == cm {
		return verdict{covered: true}, nil
	}
	owner, err := sysfs.OwnerOf(n.Sys, name)
	if errors.Is(err, fs.ErrNotExist) && sysfs.IsHFI(name) {
		return n.coversRenamed(known)
	}
	if err != nil {
		return verdict{}, err
	}
	if v, is := known[owner]; is {
		return v, nil
	}
	// The GUID of an HCA that is away is not known.
	guid, err := sysfs.NodeGUID(n.Sys, owner.Device)
	away := errors.Is(err, fs.ErrNotExist)
	if err != nil && !away {
		return verdict{}, err
	}
	if away {
		if now, err := sysfs.OwnerOf(n.Sys, name); err != nil || now != owner {
			return n.covers(name, known) // udev has renamed it meanwhile
		}
	}
	h, err := sysfs.HCA(n.Sys, owner.Device, guid, owner.Address)
	if err != nil {
		return verdict{}, err
	}
	covered := slices.ContainsFunc(n.Config.HCAs, func(c config.HCA) bool { return c.Covers(h) })
	known[owner] = verdict{covered, away}
	return known[owner], nil
}

// coversRenamed tells so of a device node of hfi1 whose HCA has another name: it may be of any HCA of hfi1 that has.
// The folder is no matter of such a node.
func (n Nodes) coversRenamed(known verdicts) (verdict, error) {
	all := verdict{away: true}
	renamed, err := sysfs.RenamedHFIs(n.Sys)
	if err != nil {
		return verdict{}, err
	}
	for _, name := range renamed {
		v, err := n.covers(name, known)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return verdict{}, err
		}
		all.covered = all.covered || v.covered
	}
	return all, nil
}
