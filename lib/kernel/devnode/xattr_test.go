package devnode_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/devnode"
	"gresnet/test/netnstest"
	"gresnet/test/seed"
)

const listOfNode, listOfFolder = "system.posix_acl_access", "system.posix_acl_default"

// list returns an access control list that lets a user and a group open a node, as linux/posix_acl_xattr.h has it.
func list() []byte {
	any := func() uint16 { return uint16(seed.IntN(8)) }
	text := binary.LittleEndian.AppendUint32(nil, 2) // POSIX_ACL_XATTR_VERSION
	for _, e := range []struct {
		tag, allowed uint16
		id           uint32
	}{{1, any(), ^uint32(0)}, {2, any(), 1000}, {4, any(), ^uint32(0)}, {8, any(), 77}, {16, any(), ^uint32(0)}, {32, any(), ^uint32(0)}} {
		text = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(text, e.tag), e.allowed)
		text = binary.LittleEndian.AppendUint32(text, e.id)
	}
	return text
}

// give gives a node, or a folder, an attribute.
func give(t *testing.T, path, name string, value []byte) {
	t.Helper()
	err := unix.Setxattr(path, name, value, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		netnstest.Skip(t, "needs a tmpfs with extended attributes and access control lists")
	}
	if err != nil {
		t.Fatalf("set %s of %s: %v", name, path, err)
	}
}

func TestANodeHasItsAccessControlListAgainAlsoIfItIsMadeAgain(t *testing.T) {
	dir := nodes(t)
	node := filepath.Join(dir, "null")
	made := func(mode uint32) {
		t.Helper()
		os.Remove(node)
		if err := errors.Join(unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(1, 3))), os.Chmod(node, os.FileMode(mode))); err != nil {
			t.Fatal(err)
		}
	}
	read := func() devnode.Node {
		t.Helper()
		n, err := devnode.Read(node)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for n := range 300 {
		unix.Removexattr(dir, listOfFolder)
		made(uint32(seed.IntN(0o1000)))
		if seed.IntN(2) == 0 {
			give(t, node, listOfNode, list())
		}
		if seed.IntN(2) == 0 {
			give(t, node, "trusted.site", []byte("rail 0\x00\xff"))
		}
		restricted := seed.IntN(4) == 0 // as the site wants free nodes
		if restricted && seed.IntN(2) == 0 {
			if err := devnode.Set(node, devnode.RootAlone()); err != nil {
				t.Fatal(err)
			}
		}
		before := read()
		if restricted {
			before.KeepRestricted()
		}
		text, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		var note devnode.Node
		if err := json.Unmarshal(text, &note); err != nil {
			t.Fatal(err)
		}
		if err := devnode.Set(node, devnode.RootAlone()); err != nil {
			t.Fatal(err)
		}
		if now, err := devnode.Stat(node); err != nil || now != devnode.RootAlone() {
			t.Fatalf("restricted, it is %+v, %v", now, err)
		}
		if n%2 == 0 {
			if seed.IntN(2) == 0 {
				give(t, dir, listOfFolder, list())
			}
			made(uint32(seed.IntN(0o1000)))
		}
		for range 2 {
			if err := devnode.Restore(node, note); err != nil {
				t.Fatal(err)
			}
			if now := read(); now.Access != before.Access || !maps.EqualFunc(now.Attributes, before.Attributes, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Fatalf("it is %+v, and was %+v", now, before)
			}
		}
		if _, has := before.Attributes[listOfNode]; restricted && has && before.Access.Mode&0o077 != 0 {
			t.Fatalf("restricted, it opens to others: %+v", before)
		}
	}
}

func TestAnEarlierVersionsEntryLeavesANodesAttributes(t *testing.T) {
	node := filepath.Join(nodes(t), "null")
	if err := devnode.Make(node, 1, 3, devnode.RootAlone()); err != nil {
		t.Fatal(err)
	}
	give(t, node, "trusted.site", []byte("rail 0"))
	var note devnode.Node
	if err := json.Unmarshal([]byte(`{"kind":"uverbs","access":{"mode":438,"uid":0,"gid":0}}`), &note); err != nil {
		t.Fatal(err)
	}
	if err := devnode.Restore(node, note); err != nil {
		t.Fatal(err)
	}
	now, err := devnode.Read(node)
	if want := map[string][]byte{"trusted.site": []byte("rail 0")}; err != nil || now.Access.Mode != 0o666 || !reflect.DeepEqual(now.Attributes, want) {
		t.Errorf("it is %+v, %v", now, err)
	}
	text, err := json.Marshal(note)
	if want := `{"kind":"uverbs","access":{"mode":438,"uid":0,"gid":0}}`; err != nil || string(text) != want {
		t.Errorf("what is not known is written %s, %v", text, err)
	}
}
