// Package access tests who may open an HCA: device nodes, the guard, limits, and what a job is told.
package access

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
