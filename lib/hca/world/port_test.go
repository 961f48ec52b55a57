package world

import (
	"testing"
)

func TestAPortIsWorseIfItHadALinkThatItHasNoMoreOrASlowerOne(t *testing.T) {
	const edr, hdr, narrow = "100 Gb/sec (4X EDR)", "200 Gb/sec (4X HDR)", "25 Gb/sec (1X EDR)"
	for name, c := range map[string]struct {
		before, now []Port
		want        string
	}{
		"as it was":                 {[]Port{{1, "ACTIVE", edr}}, []Port{{1, "ACTIVE", edr}}, ""},
		"faster":                    {[]Port{{1, "ACTIVE", edr}}, []Port{{1, "ACTIVE", hdr}}, ""},
		"down":                      {[]Port{{1, "ACTIVE", edr}}, []Port{{1, "DOWN", edr}}, "port 1 of mlx5_0 came home with state DOWN, it had ACTIVE"},
		"not yet up":                {[]Port{{1, "ACTIVE", edr}}, []Port{{1, "INIT", edr}}, "port 1 of mlx5_0 came home with state INIT, it had ACTIVE"},
		"a lane":                    {[]Port{{1, "ACTIVE", edr}}, []Port{{1, "ACTIVE", narrow}}, "port 1 of mlx5_0 came home with rate 25 Gb/sec (1X EDR), it had 100 Gb/sec (4X EDR)"},
		"the second":                {[]Port{{1, "DOWN", ""}, {2, "ACTIVE", edr}}, []Port{{1, "DOWN", ""}, {2, "DOWN", edr}}, "port 2 of mlx5_0 came home with state DOWN, it had ACTIVE"},
		"never had a link":          {[]Port{{1, "DOWN", edr}}, []Port{{1, "DOWN", narrow}}, ""},
		"has one now":               {[]Port{{1, "DOWN", narrow}}, []Port{{1, "ACTIVE", edr}}, ""},
		"gone":                      {[]Port{{1, "ACTIVE", edr}}, nil, "port 1 of mlx5_0 came home with state none, it had ACTIVE"},
		"of which nothing is known": {nil, []Port{{1, "DOWN", edr}}, ""},
		"the rate is not said":      {[]Port{{1, "ACTIVE", edr}}, []Port{{1, "ACTIVE", ""}}, ""},
		"a rate in other words":     {[]Port{{1, "ACTIVE", "fast"}}, []Port{{1, "ACTIVE", edr}}, ""},
		"2.5 is less than 10":       {[]Port{{1, "ACTIVE", "10 Gb/sec (4X SDR)"}}, []Port{{1, "ACTIVE", "2.5 Gb/sec (1X SDR)"}}, "port 1 of mlx5_0 came home with rate 2.5 Gb/sec (1X SDR), it had 10 Gb/sec (4X SDR)"},
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
	if want := "port 2 of mlx5_0 (ib1) came home with state DOWN, it had ACTIVE"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
