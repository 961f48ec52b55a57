package snapshot_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/link/snapshot"
)

// A veth that is made again stands for an IPoIB interface, which the RDMA device's move
// makes again: it has its driver's defaults.
func TestWhatTheDriverKeptIsGivenToAnInterfaceThatIsMadeAgain(t *testing.T) {
	const segmentation = "tx-tcp-segmentation"
	b := newBed(t)
	remake := func() {
		b.node.IP("link del hca0")
		b.node.IP("link add hca0 numrxqueues 4 type veth peer name far0 netns " + b.far.Path)
	}
	remake()
	var want snapshot.Settings
	in(t, b.node, func(c *snapshot.Conn) (err error) {
		index := find(t, c, "hca0").Index
		if want, err = c.Settings(index); err != nil {
			return err
		}
		if err := c.Remade(index, &want); err != nil {
			return err
		}
		want = throughJSON(t, want)
		all := len(want.Driver.Features)
		want.Driver.Features = slices.DeleteFunc(want.Driver.Features, func(f string) bool { return f == segmentation })
		if len(want.Driver.Features) != all-1 {
			t.Fatalf("its features are %q", want.Driver.Features)
		}
		change(t, want.Driver.Ethtool["channels"], unix.ETHTOOL_A_CHANNELS_RX_COUNT, 3)
		return nil
	})
	remake()
	in(t, b.node, func(c *snapshot.Conn) error {
		index := find(t, c, "hca0").Index
		lost := driverDifferences(t, c, index, want)
		if wanted := []string{"feature " + segmentation + " is on, was off", "channels are not what they were"}; !slices.Equal(lost, wanted) {
			t.Errorf("made again, it differs by %q, wanted %q", lost, wanted)
		}
		if err := apply(c, index, want, snapshot.InJob); err != nil {
			return err
		}
		if left := driverDifferences(t, c, index, want); len(left) > 0 {
			t.Errorf("it differs still by %q", left)
		}
		return nil
	})
}

func driverDifferences(t *testing.T, c *snapshot.Conn, index int, want snapshot.Settings) []string {
	t.Helper()
	diff, err := c.Differences(index, want)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(diff, func(d string) bool {
		return !strings.HasPrefix(d, "feature ") && !strings.HasPrefix(d, "channels ")
	})
}

// change changes the number that an attribute of a message has.
func change(t *testing.T, m []byte, kind uint16, to uint32) {
	t.Helper()
	for rest := []byte(m); len(rest) >= 8; rest = rest[binary.NativeEndian.Uint16(rest):] {
		if binary.NativeEndian.Uint16(rest[2:]) == kind {
			binary.NativeEndian.PutUint32(rest[4:], to)
			return
		}
	}
	t.Fatalf("no attribute %d in % x", kind, m)
}
