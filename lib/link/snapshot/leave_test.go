package snapshot_test

import (
	"testing"

	"gresnet/lib/link/snapshot"
)

// TestAnInterfaceThatUdevRenamesMeanwhileLeaves: DCB is asked for by an interface's name.
func TestAnInterfaceThatUdevRenamesMeanwhileLeaves(t *testing.T) {
	b := newBed(t)
	in(t, b.node, func(c *snapshot.Conn) error {
		i := find(t, c, "hca0")
		b.node.IP("link set hca0 name renamed0")
		return c.Leave(i)
	})
}
