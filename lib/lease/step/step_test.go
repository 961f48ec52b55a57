package step

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/link"
)

func TestAnEntryWithFieldsOfALaterVersionReadsAsOneWithoutThem(t *testing.T) {
	for _, o := range order {
		known, err := Decode(o.kind, json.RawMessage(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		later, err := Decode(o.kind, json.RawMessage(`{"later":[{"num":1,"values":{"a":2}}]}`))
		if err != nil || !reflect.DeepEqual(known, later) {
			t.Errorf("%s: %v: got %+v, wanted %+v", o.kind, err, later, known)
		}
	}
}

func TestWhatPortsHadCountedIsKeptAndAnEntryWithoutItIsAsBefore(t *testing.T) {
	entry := &Access{ID: node.ID{GUID: "1"}, Name: "mlx5_0"}
	const before = `{"hca":{"guid":"1"},"name":"mlx5_0","nodes":null}`
	if text, err := json.Marshal(entry); err != nil || string(text) != before {
		t.Errorf("%v: an entry is %s", err, text)
	}
	entry.Counters = []counters.Port{{Num: 1, Data: map[string]uint64{"port_xmit_data": 1<<64 - 1}, Hardware: map[string]uint64{"a": 0}}}
	text, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode("access", text); err != nil || !reflect.DeepEqual(back, entry) {
		t.Errorf("%v: %s reads as %+v", err, text, back)
	}
}

func TestAnEntryOfSettingsReadsBackAsItWasWritten(t *testing.T) {
	var s Settings
	s.Of, s.Port, s.Interface, s.GIDs = node.ID{GUID: "0002:c903:0000:1a3b"}, 1, link.ID{Kind: "ether"}, []netip.Addr{netip.MustParseAddr("fe80::1")}
	s.Settings.Name, s.Settings.AltNames, s.Settings.MTU = "roce0\xff", []string{"one", "two\xfe"}, 9000
	s.Settings.Sysctls = map[string]string{"ipv4/conf/rp_filter": "2"}
	text, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Decode("settings", text)
	if err != nil || !reflect.DeepEqual(read, &s) {
		t.Errorf("%+v, %v, wanted %+v", read, err, &s)
	}
}
