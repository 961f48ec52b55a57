package virtual_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
	"gresnet/test/netnstest"
)

// BenchmarkSlot measures on this machine's own kernel the interface of a slot, a macvlan: how long it
// takes to make it in a job and to delete it there, and for comparison to move an interface into the
// job and back. The best of the rounds counts, because other work of the machine only adds to it.
// What a way takes beyond the processor's time it waits: for a processor, or for what the kernel
// waits for.
func BenchmarkSlot(b *testing.B) {
	host, job := netnstest.New(b), netnstest.New(b)
	host.IP("link add eth2 type veth peer name far2")
	host.IP("link add eth3 type veth peer name far3")
	for _, name := range []string{"eth2", "far2", "eth3", "far3"} {
		host.IP("link set " + name + " up")
	}
	parent, moved := indexOf(b, host, "eth2"), indexOf(b, host, "eth3")
	slot := virtual.Child{Kind: "macvlan", Name: "eth2", Index: virtual.ChildIndex(0, 1, 0), MAC: virtual.ChildMAC("b8:59:9f:00:00:01", 0)}
	slot.Address = netip.MustParsePrefix("10.64.0.24/16")
	ways := []struct {
		name string
		in   *netnstest.NS
		do   func() error
	}{
		{"make", host, func() error { return virtual.MakeChild(slot, parent, job.FD()) }},
		{"raise", job, func() error { _, err := virtual.RaiseChild(slot); return err }},
		{"delete", job, func() error { return virtual.DeleteChild(slot.Kind, slot.Index) }},
		{"move-in", host, func() error { return move(moved, job.FD()) }},
		{"move-back", job, func() error { return move(moved, host.FD()) }},
	}
	took, cpu := make([][]float64, len(ways)), make([][]float64, len(ways))
	for b.Loop() {
		for i, w := range ways {
			if err := w.in.Do(func() error { return timed(w.do, &took[i], &cpu[i]) }); err != nil {
				b.Fatalf("%s: %v", w.name, err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, w := range ways {
		b.ReportMetric(slices.Min(took[i]), w.name+"-ms")
		b.ReportMetric(slices.Min(cpu[i]), w.name+"-cpu-ms")
	}
}

func move(index, nsfd int) error {
	c, err := link.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Move(index, nsfd, "eth3", true)
}

// timed adds the milliseconds that a function takes in this thread, and those of a processor.
func timed(f func() error, took, cpu *[]float64) error {
	used, begun := threadTime(), time.Now()
	err := f()
	*took = append(*took, float64(time.Since(begun).Microseconds())/1000)
	*cpu = append(*cpu, float64((threadTime()-used).Microseconds())/1000)
	return err
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // of this thread's own clock
	}
	return time.Duration(t.Nano())
}

func indexOf(t testing.TB, ns *netnstest.NS, name string) (index int) {
	t.Helper()
	if _, err := fmt.Sscan(ns.Run("cat /sys/class/net/"+name+"/ifindex"), &index); err != nil {
		t.Fatal(err)
	}
	return index
}
