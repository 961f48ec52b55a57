// Package lease tests how HCAs are taken, given back, swept and released.
package lease

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
