package trial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/test/seed"
)

// Whatever is changed between two pictures must be in what differs, and nothing else.
func TestAllLinesThatDifferAreFoundAndNoOthers(t *testing.T) {
	for range 500 {
		var was []string
		for i := range 1 + seed.IntN(8) {
			was = append(was, fmt.Sprintf("fact %d", i%5))
		}
		is, want := slices.Clone(was), []string{}
		for range seed.IntN(3) {
			if i := seed.IntN(len(is)); !strings.HasPrefix(is[i], "new") {
				want = append(want, "- "+is[i], "+ new "+is[i])
				is[i] = "new " + is[i]
			}
		}
		got := compare(strings.Join(was, "\n"), strings.Join(is, "\n"))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%q and %q: %q, want %q", was, is, got, want)
		}
	}
	if got := compare("a\nb", "b\na"); len(got) != 4 {
		t.Errorf("another order: %q", got)
	}
}

// node returns an HCA with what its node sees, and what its job must see.
func node() (h *hca, in sight) {
	h = &hca{Tried: &report.Tried{Name: "mlx5_0"}, interfaces: []string{"roce0"}, moves: true}
	see := func() sight {
		return sight{
			Devices: []string{"mlx5_0"}, GIDs: map[string][]string{"mlx5_0": {"gid-a", "gid-b"}},
			Links: map[string]*link{"roce0": {Hardware: true, Carrier: true, Addresses: []string{"10.1.0.1/24"}}, "lo": {}},
			Nodes: map[string]*charDev{"uverbs0": {Of: "mlx5_0", Verbs: "context"}},
		}
	}
	h.before = see()
	return h, see()
}

func TestEachFaultInsideIsNamed(t *testing.T) {
	for want, put := range map[string]func(*sight){
		"":                                     func(*sight) {},
		"RDMA device mlx5_0 is not there":      func(s *sight) { s.Devices = nil },
		"mlx5_1 is there, which is not":        func(s *sight) { s.Devices = append(s.Devices, "mlx5_1") },
		"interface eth0 is there, which":       func(s *sight) { s.Links["eth0"] = &link{Hardware: true} },
		"interface roce0 is not there":         func(s *sight) { delete(s.Links, "roce0") },
		"roce0 lacks address 10.1.0.1/24":      func(s *sight) { s.Links["roce0"].Addresses = nil },
		"roce0 has no carrier":                 func(s *sight) { s.Links["roce0"].Carrier = false },
		"mlx5_0 lacks GID gid-b":               func(s *sight) { s.GIDs["mlx5_0"] = []string{"gid-a"} },
		"user cannot open uverbs0: permission": func(s *sight) { s.Nodes["uverbs0"].Refused = "permission denied" },
		"another user can open uverbs0":        func(s *sight) { s.Nodes["uverbs0"].Foreign = true },
		"mlx5_0 has no uverbs device":          func(s *sight) { s.Nodes = nil },
	} {
		h, in := node()
		put(&in)
		h.judge(in, []*hca{h}, true)
		got := strings.Join(h.Faults, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) || len(h.Faults) > 1 {
			t.Errorf("wanted %q alone: %q", want, h.Faults)
		}
	}
}

func TestAFaultIsThatOfTheHCAThatItNames(t *testing.T) {
	a := &hca{Tried: &report.Tried{Name: "mlx5_1"}, interfaces: []string{"roce1"}}
	b := &hca{Tried: &report.Tried{Name: "mlx5_10"}, interfaces: []string{"roce10"}}
	new(Trial).blame([]*hca{a, b}, `- link {"ifname":"roce10"}`, "do rdma mlx5_1: busy", "no space left")
	for h, want := range map[*hca]string{a: "do rdma mlx5_1: busy, no space left", b: `- link {"ifname":"roce10"}, no space left`} {
		if got := strings.Join(h.Faults, ", "); got != want {
			t.Errorf("%s: %s", h.Name, got)
		}
	}
}

func TestAReportIsTextIfItsNameSaysSo(t *testing.T) {
	found := &report.Trial{HCAs: []report.Tried{{Name: "mlx5_0", Verdict: report.Failed, Faults: []string{"roce0 lacks address 10.1.0.1/24"}}}}
	for name, want := range map[string]string{"try.json": `{"version":1,`, "try.txt": "HCA "} {
		path := filepath.Join(t.TempDir(), name)
		if err := Write(path, found); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if one := strings.Join(strings.Fields(string(text)), ""); err != nil || !strings.HasPrefix(one, strings.TrimSpace(want)) || strings.Contains(one, "10.1.0.1") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestTheAverageOfPerftestsFiguresIsRead(t *testing.T) {
	const head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	got, err := gbits("local address: LID 0000 QPN 0x0011\n" + head + " 65536      1000             197.31             196.58             0.374949\n" + strings.Repeat("-", 90) + "\n")
	if got != 196.58 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := gbits(head); err == nil {
		t.Errorf("without figures: got %v", got)
	}
}

func TestAnErrorIsToldOnOneLineWithItsIDAndWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"device busy":                                        errors.New("device busy"),
		"device busy [GN999]; hint: wait":                    hint.With(errors.New("device busy"), "GN999 wait"),
		"move mlx5_3: device busy [GN999]; hint: wait":       fmt.Errorf("move mlx5_3: %w", hint.With(errors.New("device busy"), "GN999 wait")),
		"device busy; no; no [GN999]; hint: wait; or reboot": hint.Join(errors.New("device busy"), hint.With(errors.New("no\nno"), "GN999 wait\nor reboot")),
	} {
		if got := told(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
