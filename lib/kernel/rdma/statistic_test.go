package rdma

import (
	"reflect"
	"testing"

	"gresnet/lib/kernel/netlink"
)

// An answer as nldev.c:fill_res_counter_entry makes it.
func TestWhatADriverCountsForAProcessesQueuePairsIsRead(t *testing.T) {
	counter := func(name string, value uint64) []byte {
		entry := netlink.AppendText(nil, attrStatName, name)
		return netlink.Append(nil, attrStatHWCounters+1, netlink.Append(entry, attrStatValue, native.AppendUint64(nil, value)))
	}
	entry := func(pid uint32) []byte {
		m := netlink.AppendUint32(nil, attrPortIndex, 1)
		m = netlink.AppendUint32(m, 79, 5)
		if pid != 0 {
			m = netlink.AppendUint32(m, attrResPID, pid)
		} else {
			m = netlink.AppendText(m, attrResKernName, "ib_core")
		}
		m = netlink.Append(m, attrResQP, netlink.Append(nil, attrResQP+1, netlink.AppendUint32(nil, 21, 17)))
		return netlink.Append(nil, attrStatCounter+1, netlink.Append(m, attrStatHWCounters, append(counter("out_of_buffer", 3), counter("rx_write_requests", 1<<40)...)))
	}
	message := netlink.Append(netlink.AppendUint32(nil, attrDevIndex, 4), attrStatCounter, append(append(entry(7), entry(0)...), entry(8)...))
	var got []Statistic
	if err := readStatistics(message, func(s Statistic) error { got = append(got, s); return nil }); err != nil {
		t.Fatal(err)
	}
	counters := map[string]uint64{"out_of_buffer": 3, "rx_write_requests": 1 << 40}
	if want := []Statistic{{1, 7, counters}, {1, 8, counters}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, wanted %v", got, want)
	}
	for cut := range message {
		_ = readStatistics(message[:cut], func(Statistic) error { return nil }) // must not panic
	}
}
