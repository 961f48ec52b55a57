// Package fault tests what goes wrong: failing steps, damaged files, moves that hang.
package fault

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
