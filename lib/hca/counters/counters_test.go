package counters_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/hca/counters"
	"gresnet/lib/kernel/detach"
	"gresnet/test/await"
)

// soon is when a reading that can end has ended.
func soon() time.Time { return time.Now().Add(time.Minute) }

// device lays out a device's folder with one port.
func device(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, "ports", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func readAll(t *testing.T, folders ...string) [][]counters.Port {
	t.Helper()
	r, err := counters.Begin(folders, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.End(soon())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAReadingHasEachPortOfEachDeviceAndLeavesOutWhatIsNoCounter(t *testing.T) {
	one := device(t, map[string]string{
		"1/counters/port_xmit_data": "12\n", "1/counters/port_rcv_data": "34\n",
		"1/counters/symbol_error": "7\n", "1/counters/port_xmit_packets": "N/A (no PMA)\n",
		"1/hw_counters/lifespan": "10\n", "1/hw_counters/out_of_sequence": "5\n",
		"2/counters/port_rcv_data": "56\n",
		"2/hw_counters/odd":        "many\n",
	})
	got := readAll(t, one, device(t, nil), device(t, map[string]string{"1/hw_counters/rx": "1\n"}))
	want := [][]counters.Port{
		{
			{Num: 1, Data: map[string]uint64{"port_xmit_data": 12, "port_rcv_data": 34}, Hardware: map[string]uint64{"out_of_sequence": 5}},
			{Num: 2, Data: map[string]uint64{"port_rcv_data": 56}},
		},
		nil,
		{{Num: 1, Hardware: map[string]uint64{"rx": 1}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFaultsAreReadWhereAPortHasThemAndNowhereElse(t *testing.T) {
	one := device(t, map[string]string{
		"1/counters/port_xmit_data": "12\n", "1/counters/symbol_error": "7\n", "1/counters/link_downed": "N/A (no PMA)\n",
		"1/hw_counters/out_of_sequence": "5\n",
		"2/counters/symbol_error":       "0\n",
	})
	r, err := counters.Begin([]string{one}, []string{"link_downed", "out_of_sequence", "symbol_error"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.End(soon())
	want := [][]counters.Port{{
		{Num: 1, Data: map[string]uint64{"port_xmit_data": 12}, Hardware: map[string]uint64{"out_of_sequence": 5}, Faults: map[string]uint64{"symbol_error": 7}},
		{Num: 2, Faults: map[string]uint64{"symbol_error": 0}},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v, %v\nwant %v", got, err, want)
	}
}

func TestOnlyWhatGrewByMoreThanItsLimitIsOver(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		before := counters.Port{Num: 1, Hardware: map[string]uint64{"b": r.Uint64N(9)}, Faults: map[string]uint64{"a": r.Uint64N(9), "c": r.Uint64N(9)}}
		after := counters.Port{Num: 1, Hardware: map[string]uint64{"b": r.Uint64N(9)}, Faults: map[string]uint64{"a": r.Uint64N(9), "c": r.Uint64N(9)}}
		limits := map[string]uint64{"a": r.Uint64N(5), "b": r.Uint64N(5), "no such": 0}
		var want, got []counters.Over
		for _, c := range []struct {
			name    string
			was, is uint64
		}{{"a", before.Faults["a"], after.Faults["a"]}, {"b", before.Hardware["b"], after.Hardware["b"]}} {
			if c.is > c.was+limits[c.name] {
				want = append(want, counters.Over{Counter: c.name, By: c.is - c.was, Allowed: limits[c.name]})
			}
		}
		for _, traffic := range counters.Between([]counters.Port{before}, []counters.Port{after}) {
			got = append(got, traffic.Over(limits)...)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("from %v to %v with limits %v: got %v, want %v", before, after, limits, got, want)
		}
	}
}

func TestACounterThatIsNeverReadHoldsUpNobody(t *testing.T) {
	quick := device(t, map[string]string{"1/hw_counters/rx": "1\n"})
	stuck := device(t, map[string]string{"1/hw_counters/rx": "1\n"})
	pipe := filepath.Join(stuck, "ports", "1", "hw_counters", "tx")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil { // its opening waits for one who writes
		t.Fatal(err)
	}
	r, err := counters.Begin([]string{quick, stuck, quick}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Who has it open for writing and writes nothing holds up its reading as long as it likes.
	await.Until(t, "the counter is read", func() bool {
		fd, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err == nil {
			t.Cleanup(func() { syscall.Close(fd) })
		}
		return err == nil
	})
	all, err := r.End(time.Now().Add(time.Second))
	if !errors.Is(err, detach.ErrHeldUp) || len(all) != 3 {
		t.Fatalf("got %v, %v", all, err)
	}
	if len(all[0]) != 1 || len(all[1]) > 0 || len(all[2]) > 0 {
		t.Errorf("it read %v: before what is stuck, not of that port, and nothing behind it", all)
	}
}

func TestNothingToReadIsReadAtOnce(t *testing.T) {
	if all := readAll(t); len(all) != 0 {
		t.Errorf("got %v", all)
	}
}

// reading returns one that has all counters of a port.
func reading(r *rand.Rand) counters.Port {
	value := func() uint64 { return r.Uint64N(1 << 40) }
	return counters.Port{
		Num: 1,
		Data: map[string]uint64{
			"port_xmit_data": value(), "port_rcv_data": value(), "port_xmit_packets": value(), "port_rcv_packets": value(),
		},
		Hardware: map[string]uint64{"a": value(), "b": value()},
	}
}

// grown returns a reading of the same port, by so much later.
func grown(p counters.Port, by map[string]uint64) counters.Port {
	q := counters.Port{Num: p.Num, Data: maps.Clone(p.Data), Hardware: maps.Clone(p.Hardware)}
	for _, all := range []map[string]uint64{q.Data, q.Hardware} {
		for name := range all {
			all[name] += by[name]
		}
	}
	return q
}

func TestTrafficIsTheDifferenceAndWordsAreFourBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		before, by := reading(r), map[string]uint64{}
		for _, name := range []string{"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "a"} {
			by[name] = 1 + r.Uint64N(1<<40)
		}
		got := counters.Between([]counters.Port{before}, []counters.Port{grown(before, by)})
		want := []counters.Traffic{{
			Port: 1,
			Volume: &counters.Volume{
				SentBytes: 4 * by["port_xmit_data"], ReceivedBytes: 4 * by["port_rcv_data"],
				SentPackets: by["port_xmit_packets"], ReceivedPackets: by["port_rcv_packets"],
			},
			Hardware: map[string]uint64{"a": by["a"]},
		}}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

func TestWhatWasResetWrappedOrIsFullOrMissingIsLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	spoil := map[string]func(all map[string]uint64, name string, was uint64){
		"reset":          func(all map[string]uint64, name string, was uint64) { all[name] = r.Uint64N(was) },
		"full":           func(all map[string]uint64, name string, _ uint64) { all[name] = math.MaxUint64 },
		"full, 32 bits":  func(all map[string]uint64, name string, was uint64) { all[name] = math.MaxUint32 },
		"not there more": func(all map[string]uint64, name string, _ uint64) { delete(all, name) },
	}
	for what, f := range spoil {
		for _, name := range []string{"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"} {
			before := reading(r)
			before.Data[name] %= 1 << 31
			before.Data[name]++
			after := grown(before, map[string]uint64{"a": 3})
			f(after.Data, name, before.Data[name])
			got := counters.Between([]counters.Port{before}, []counters.Port{after})
			want := []counters.Traffic{{Port: 1, Hardware: map[string]uint64{"a": 3}}}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s: got %+v", name, what, got)
			}
		}
		before := reading(r)
		before.Hardware["a"] %= 1 << 31
		before.Hardware["a"]++
		after := grown(before, map[string]uint64{"b": 4})
		f(after.Hardware, "a", before.Hardware["a"])
		got := counters.Between([]counters.Port{before}, []counters.Port{after})
		if len(got) != 1 || !reflect.DeepEqual(got[0].Hardware, map[string]uint64{"b": 4}) || got[0].Volume == nil {
			t.Errorf("a %s: got %+v", what, got)
		}
	}
}

func TestAPortThatIsNotReadTwiceIsLeftOut(t *testing.T) {
	p := reading(rand.New(rand.NewPCG(3, 3)))
	for _, pair := range [][2][]counters.Port{{{p}, nil}, {nil, {p}}, {{p}, {{Num: 2, Data: p.Data}}}} {
		if got := counters.Between(pair[0], pair[1]); got != nil {
			t.Errorf("%v: got %v", pair, got)
		}
	}
}

func TestWhatADriverDoesNotSayIsNoZeroInJSON(t *testing.T) {
	for want, traffic := range map[string]counters.Traffic{
		`{"port":1,"hw_counters":{"a":3}}`: {Port: 1, Hardware: map[string]uint64{"a": 3}},
		`{"port":2,"sent_bytes":4,"received_bytes":0,"sent_packets":1,"received_packets":0}`: {
			Port: 2, Volume: &counters.Volume{SentBytes: 4, SentPackets: 1}},
	} {
		got, err := json.Marshal(traffic)
		if err != nil || string(got) != want {
			t.Errorf("%v: got %s", err, strconv.Quote(string(got)))
		}
	}
}
