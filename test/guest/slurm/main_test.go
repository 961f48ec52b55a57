// Package slurm tests gresnet under a real Slurm: jobs, steps, GRES, sources, the plugin.
package slurm

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
