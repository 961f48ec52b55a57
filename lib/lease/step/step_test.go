package step

import (
	"encoding/json"
	"reflect"
	"testing"

	"gresnet/lib/hca/counters"
	"gresnet/lib/words/node"
)

func TestANoteWithFieldsOfALaterVersionReadsAsOneWithoutThem(t *testing.T) {
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

func TestWhatPortsHadCountedIsNotedAndANoteWithoutItIsAsBefore(t *testing.T) {
	note := &Access{ID: node.ID{GUID: "1"}, Name: "mlx5_0"}
	const before = `{"hca":{"guid":"1"},"name":"mlx5_0","nodes":null}`
	if text, err := json.Marshal(note); err != nil || string(text) != before {
		t.Errorf("%v: a note is %s", err, text)
	}
	note.Counters = []counters.Port{{Num: 1, Data: map[string]uint64{"port_xmit_data": 1<<64 - 1}, Hardware: map[string]uint64{"a": 0}}}
	text, err := json.Marshal(note)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode("access", text); err != nil || !reflect.DeepEqual(back, note) {
		t.Errorf("%v: %s reads as %+v", err, text, back)
	}
}
