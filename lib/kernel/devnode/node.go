// Package devnode says who may open the device nodes of HCAs: one node (Node), the folder that they are in
// (Folder), and all of the node's own (Nodes), which no lease restricts and none opens.
package devnode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/sysfs"
)

// Path returns where a device node is: in the folder of HCAs' device nodes, or beside it.
func Path(folder, name string) string {
	if sysfs.IsHFI(name) {
		folder = filepath.Dir(folder)
	}
	return filepath.Join(folder, name)
}

// Access is who may open a device node.
type Access struct {
	Mode uint32 `json:"mode"` // permission bits
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
}

// Node is one device node of an HCA. Kind and Port tell which: its number changes.
type Node struct {
	Kind   string `json:"kind"`
	Port   uint32 `json:"port,omitempty"`
	Access Access `json:"access"`

	// Attributes are the extended attributes that it keeps; nil: not known.
	Attributes map[string][]byte `json:"attributes,omitzero"`
}

// KeepRestricted has what is restored be restricted, whoever could open the node when it was read.
func (n *Node) KeepRestricted() {
	if n.Access != RootAlone() {
		delete(n.Attributes, acl) // the list of a node that is restricted opens nothing
	}
	n.Access = RootAlone()
}

// RootAlone returns the access of a node that is restricted.
func RootAlone() Access { return Access{Mode: 0o600} }

// Stat reads who may open a node.
func Stat(path string) (Access, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Access{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return Access{}, &fs.PathError{Op: "stat", Path: path, Err: errors.New("not a character device")}
	}
	return Access{Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid}, nil
}

// Read reads who may open a node, and its attributes.
func Read(path string) (n Node, err error) {
	if n.Access, err = Stat(path); err != nil {
		return Node{}, err
	}
	n.Attributes, err = attributes(path)
	return n, err
}

// Number reads which device a node is of.
func Number(path string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return unix.Major(st.Rdev), unix.Minor(st.Rdev), nil
}

// Set makes a node's access what is given. It narrows before it gives away,
// and touches nothing that is so already: a change of owner is a change of ctime.
// A node's access control list stays; its mask is the mode's, so one that is restricted opens nothing.
func Set(path string, want Access) error { return set(path, want, nil) }

// Restore makes a node's access what it was, with its attributes.
func Restore(path string, want Node) error { return set(path, want.Access, want.Attributes) }

// set gives the list before the mode: without it, the mode of one that has a list gives its group what the
// list gives others.
func set(path string, want Access, attributes map[string][]byte) error {
	have, err := Stat(path)
	if err != nil {
		return err
	}
	if have == want {
		return setAttributes(path, attributes)
	}
	if err := os.Chmod(path, fs.FileMode(have.Mode&want.Mode&0o777)); err != nil {
		return err
	}
	if err := os.Lchown(path, int(want.UID), int(want.GID)); err != nil {
		return err
	}
	if err := setAttributes(path, attributes); err != nil {
		return err
	}
	return unix.Chmod(path, want.Mode)
}

// Make makes a device node that did not exist.
func Make(path string, major, minor uint32, access Access) error {
	if err := unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(major, minor))); err != nil {
		return &fs.PathError{Op: "mknod", Path: path, Err: err}
	}
	return Set(path, access)
}

// Give gives a job a device by a node in the folder of its lease. A node of the node's own that is beside the
// folder of the others is in the job's sight, too: it is the job's until it is restored as it was.
func Give(folder, lease, name string, major, minor uint32, access Access) error {
	err := Make(filepath.Join(lease, name), major, minor, access)
	if err == nil && sysfs.IsHFI(name) {
		err = Set(Path(folder, name), access)
	}
	return err
}
