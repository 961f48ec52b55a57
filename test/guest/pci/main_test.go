// Package pci tests HCAs and GPUs on PCI.
package pci

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
