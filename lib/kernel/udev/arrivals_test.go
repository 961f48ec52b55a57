package udev

import (
	"testing"
	"time"

	"gresnet/test/netnstest"
)

func TestAnArrivalIsOfANetworkInterfaceOrAnRDMADevice(t *testing.T) {
	for event, want := range map[string]bool{
		"add@/devices/a/net/eth0\x00ACTION=add\x00SUBSYSTEM=net\x00INTERFACE=eth0\x00":            true,
		"move@/devices/a/net/roce0\x00ACTION=move\x00SUBSYSTEM=net\x00":                           true,
		"add@/devices/a/infiniband/mlx5_0\x00ACTION=add\x00SUBSYSTEM=infiniband\x00":              true,
		"add@/devices/a/infiniband_verbs/uverbs0\x00ACTION=add\x00SUBSYSTEM=infiniband_verbs\x00": true,
		"remove@/devices/a/net/eth0\x00ACTION=remove\x00SUBSYSTEM=net\x00":                        false,
		"change@/devices/a/infiniband/mlx5_0\x00ACTION=change\x00SUBSYSTEM=infiniband\x00":        false,
		"add@/devices/virtual/block/loop0\x00ACTION=add\x00SUBSYSTEM=block\x00":                   false,
		"add@/devices/a/net/eth0/queues/rx-0\x00ACTION=add\x00SUBSYSTEM=queues\x00":               false,
		"add@": false,
		"":     false,
	} {
		if got := arrival([]byte(event)); got != want {
			t.Errorf("%q: %t, wanted %t", event, got, want)
		}
	}
}

func TestAWaitEndsWhenAnInterfaceComes(t *testing.T) {
	node := netnstest.New(t)
	err := node.Do(func() error {
		a, err := NewArrivals()
		if err != nil {
			return err
		}
		defer a.Close()
		node.Run("ip link add v0 type veth peer name v1")
		return a.Wait(time.Hour)
	})
	if err != nil {
		t.Error(err)
	}
}
