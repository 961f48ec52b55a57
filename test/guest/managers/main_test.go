// Package managers tests what else decides about a node's interfaces: programs that configure them, as Debian
// has them, under systemd.
package managers

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
