// Package invariant tests the invariants: kill -9 and failing system calls at each step, random kills, many jobs at once.
package invariant

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
