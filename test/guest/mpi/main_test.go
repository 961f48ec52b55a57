// Package mpi tests MPI programs in steps.
package mpi

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
