package neighbour

import (
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/messagetest"
)

func FuzzMessages(f *testing.F) {
	f.Add([]byte{unix.AF_INET, 0, 0, 0, 7, 0, 0, 0, unix.NUD_PERMANENT, 0, 0, unix.RTN_UNICAST})
	messagetest.Fuzz(f, clean, Neighbour.on, func(m Neighbour) { _ = m.String() })
}
