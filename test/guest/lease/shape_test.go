package lease

import (
	"testing"

	"gresnet/test/guest/vm"
)

// As an HCA of a driver that makes no interface, and can be moved.
func TestHCAsWithoutInterfacesGoToAJobAndComeHome(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithHCAs(t, "nmin=2")
	vm.Shape{HCAs: vm.HCAs(t), Ports: 1}.GoesToAJobAndComesHome(t)
}

// As EFA, whose driver has no disassociate_ucontext.
func TestHCAsThatNobodyCanMoveGoToJobsInSharedModeAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithHCAs(t, "nmin=2 disassoc=N")
	shape := vm.Shape{HCAs: vm.HCAs(t), Ports: 1}
	if vm.IsExclusive(t) {
		shape.IsRefused(t, "its driver cannot be moved")
		return
	}
	shape.GoesToAJobAndComesHome(t)
}

// As a ConnectX-3, or a ConnectX in multiport RoCE mode.
func TestHCAsOfTwoPortsGoToAJobWithTheInterfacesOfBothAndComeHome(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	for kind, shape := range map[string]vm.Shape{
		"nroce=2": {Ports: 2, Interfaces: 2, UMAD: 2},
		"nib=2":   {Ports: 2, Interfaces: 2, UMAD: 2},
	} {
		t.Run(kind, func(t *testing.T) {
			vm.WithHCAs(t, kind+" ports=2")
			shape.HCAs = vm.HCAs(t)
			shape.GoesToAJobAndComesHome(t)
		})
	}
}
