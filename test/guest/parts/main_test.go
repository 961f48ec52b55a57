// Package parts tests HCAs that have parts: PFs and their VFs.
package parts

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
