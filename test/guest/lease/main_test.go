// Package lease tests how HCAs are taken, returned, cleaned up and released.
package lease

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
