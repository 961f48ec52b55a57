package tc

import (
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// The kernel of these tests has no mqprio, so its message is made by hand.
func TestTrafficClassesTellHowManyQueuesTheyNeed(t *testing.T) {
	options := make([]byte, 82) // struct tc_mqprio_qopt
	options[0] = 3              // classes
	for i, class := range []struct{ count, offset uint16 }{{2, 0}, {3, 5}, {1, 2}, {9, 9}} {
		native.PutUint16(options[18+2*i:], class.count)
		native.PutUint16(options[50+2*i:], class.offset)
	}
	of := func(kind string, options []byte) Qdisc {
		m := netlink.Append(tcmsg(1, atRoot), unix.TCA_KIND, append([]byte(kind), 0))
		return netlink.Append(m, unix.TCA_OPTIONS, options)
	}
	for _, tt := range []struct {
		m    Qdisc
		want int
	}{
		{of("mqprio", options), 8},
		{of("mqprio", options[:81]), 0},
		{of("mqprio", nil), 0},
		{of("mq", options), 0},
	} {
		if got := tt.m.classQueues(); got != tt.want {
			t.Errorf("%s needs %d queues, want %d", tt.m.Kind(), got, tt.want)
		}
	}
}

func TestTrafficClassesAreSentAsTheKernelTakesThem(t *testing.T) {
	options := append(make([]byte, 84), 8, 0, 6, 0, 1, 2, 3, 4) // struct tc_mqprio_qopt, and an attribute of a class
	for hardware, want := range []int{82, len(options)} {
		options[17] = byte(hardware)
		m := netlink.Append(tcmsg(1, atRoot), unix.TCA_KIND, []byte("mqprio\x00"))
		sent := Qdisc(netlink.Append(m, unix.TCA_OPTIONS, options)).on(2)
		list, err := netlink.Parse(sent[headSize:])
		if err != nil {
			t.Fatal(err)
		}
		if got := list.Value(unix.TCA_OPTIONS); len(got) != want {
			t.Errorf("with hw %d, %d bytes of options are sent, want %d", hardware, len(got), want)
		}
	}
}
