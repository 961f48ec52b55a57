package lease

import (
	"errors"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/test/leasetest"
)

func TestAFaultIsAWarningOrAReasonForQuarantineAsTheSiteSaysAndNeverBoth(t *testing.T) {
	for name, c := range map[string]struct {
		health            config.Health
		warned, forbidden []string
	}{
		"no limits":      {config.Health{}, nil, nil},
		"below limits":   {config.Health{Warn: map[string]uint64{"symbol_error": 7}, Quarantine: map[string]uint64{"link_downed": 2}}, nil, nil},
		"warning":        {config.Health{Warn: map[string]uint64{"symbol_error": 6, "out_of_sequence": 0}}, []string{"out_of_sequence", "symbol_error"}, nil},
		"quarantine":     {config.Health{Quarantine: map[string]uint64{"symbol_error": 6, "link_downed": 1}}, nil, []string{"link_downed", "symbol_error"}},
		"both":           {config.Health{Warn: map[string]uint64{"symbol_error": 1}, Quarantine: map[string]uint64{"symbol_error": 6}}, nil, []string{"symbol_error"}},
		"only a warning": {config.Health{Warn: map[string]uint64{"symbol_error": 1}, Quarantine: map[string]uint64{"symbol_error": 7}}, []string{"symbol_error"}, nil},
	} {
		var warned []string
		h := &host.Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Now: time.Now, Config: config.Config{Health: c.health}}
		h.Log = func(e event.Event) {
			var f world.FaultsError
			if e.Kind != event.PortWorse || !errors.As(e.Err, &f) || e.ID != "GN641" {
				t.Errorf("%s: event %+v", name, e)
			}
			warned = append(warned, f.Counter)
		}
		if err := h.State.Make(); err != nil {
			t.Fatal(err)
		}
		leasetest.Write(t, h.State, 7, time.Hour, []node.ID{leasetest.A})
		l, err := open(t.Context(), h, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		l.carried = map[node.ID][]counters.Traffic{leasetest.A: {{
			Port: 1, Faults: map[string]uint64{"symbol_error": 7, "link_downed": 2}, Hardware: map[string]uint64{"out_of_sequence": 1},
		}}}
		var forbidden []string
		if err := l.faults(&step.Access{ID: leasetest.A, Name: "mlx5_0"}); err != nil {
			for _, m := range regexp.MustCompile(`more of (\w+)`).FindAllStringSubmatch(err.Error(), -1) {
				forbidden = append(forbidden, m[1])
			}
		}
		if !slices.Equal(warned, c.warned) || !slices.Equal(forbidden, c.forbidden) {
			t.Errorf("%s: warned of %v, wanted %v; quarantined for %v, wanted %v", name, warned, c.warned, forbidden, c.forbidden)
		}
		if err := l.faults(&step.Settings{Of: leasetest.A}); err != nil {
			t.Errorf("%s: %v, of a step that is not about ports", name, err)
		}
	}
}
