// Package soak runs thousands of jobs of all kinds in one boot, and looks for what they leave.
//
// By emulation a job takes two to three seconds of a processor. One processor for the guest is best,
// more HCAs than usual let more jobs run at once,
// and 16 slots of one need as many GIDs as real HCAs have:
//
//	go test -v -exec "$PWD/test/vm/vm run --mode exclusive --hca roce=6,ib=1,gidlen=256 --cpus 1 --timeout 20000 --" ./test/guest/soak -timeout 330m
package soak

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
