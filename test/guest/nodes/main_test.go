// Package nodes tests jobs on two nodes.
package nodes

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
