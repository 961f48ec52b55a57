// Package network tests what else the network of a node and a job has: networkd, uplinks, real RDMA traffic.
package network

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }
