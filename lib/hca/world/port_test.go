package world

import (
	"testing"

	"gresnet/lib/hca/scan"
)

func at(port uint32, state, rate string) scan.Signal {
	return scan.Signal{Num: port, State: state, Rate: rate}
}

func TestAPortIsWorseIfItHadALinkThatItHasNoMoreOrASlowerOne(t *testing.T) {
	const edr, hdr, narrow = "100 Gb/sec (4X EDR)", "200 Gb/sec (4X HDR)", "25 Gb/sec (1X EDR)"
	for name, c := range map[string]struct {
		before, now []scan.Signal
		want        string
	}{
		"as it was":                 {[]scan.Signal{at(1, "ACTIVE", edr)}, []scan.Signal{at(1, "ACTIVE", edr)}, ""},
		"faster":                    {[]scan.Signal{at(1, "ACTIVE", edr)}, []scan.Signal{at(1, "ACTIVE", hdr)}, ""},
		"down":                      {[]scan.Signal{at(1, "ACTIVE", edr)}, []scan.Signal{at(1, "DOWN", edr)}, "port 1 of mlx5_0 came back with state DOWN, it had ACTIVE"},
		"not yet up":                {[]scan.Signal{at(1, "ACTIVE", edr)}, []scan.Signal{at(1, "INIT", edr)}, "port 1 of mlx5_0 came back with state INIT, it had ACTIVE"},
		"a lane":                    {[]scan.Signal{at(1, "ACTIVE", edr)}, []scan.Signal{at(1, "ACTIVE", narrow)}, "port 1 of mlx5_0 came back with rate 25 Gb/sec (1X EDR), it had 100 Gb/sec (4X EDR)"},
		"the second":                {[]scan.Signal{at(1, "DOWN", ""), at(2, "ACTIVE", edr)}, []scan.Signal{at(1, "DOWN", ""), at(2, "DOWN", edr)}, "port 2 of mlx5_0 came back with state DOWN, it had ACTIVE"},
		"never had a link":          {[]scan.Signal{at(1, "DOWN", edr)}, []scan.Signal{at(1, "DOWN", narrow)}, ""},
		"has one now":               {[]scan.Signal{at(1, "DOWN", narrow)}, []scan.Signal{at(1, "ACTIVE", edr)}, ""},
		"gone":                      {[]scan.Signal{at(1, "ACTIVE", edr)}, nil, "port 1 of mlx5_0 came back with state none, it had ACTIVE"},
		"of which nothing is known": {nil, []scan.Signal{at(1, "DOWN", edr)}, ""},
		"the rate is not said":      {[]scan.Signal{at(1, "ACTIVE", edr)}, []scan.Signal{at(1, "ACTIVE", "")}, ""},
		"a rate in other words":     {[]scan.Signal{at(1, "ACTIVE", "fast")}, []scan.Signal{at(1, "ACTIVE", edr)}, ""},
		"2.5 is less than 10":       {[]scan.Signal{at(1, "ACTIVE", "10 Gb/sec (4X SDR)")}, []scan.Signal{at(1, "ACTIVE", "2.5 Gb/sec (1X SDR)")}, "port 1 of mlx5_0 came back with rate 2.5 Gb/sec (1X SDR), it had 10 Gb/sec (4X SDR)"},
	} {
		got := ""
		if fault, is := worsePort("mlx5_0", c.before, c.now); is {
			got = fault.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAPortIsNamedWithItsInterfaceThatHasNoCarrier(t *testing.T) {
	err := PortError{HCA: "mlx5_0", Port: 2, Interface: "ib1", What: PortState, Before: "ACTIVE", Now: "DOWN"}
	if want := "port 2 of mlx5_0 (ib1) came back with state DOWN, it had ACTIVE"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
