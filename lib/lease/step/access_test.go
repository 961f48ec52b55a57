package step

import (
	"encoding/json"
	"testing"
)

func TestAnEntryWithoutPortsReadsAndIsWrittenAsItWasBefore(t *testing.T) {
	const old = `{"hca":{"guid":"0002:c903:00ab:0000"},"name":"mlx5_0","nodes":null}`
	s, err := Decode("access", json.RawMessage(old))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(s); err != nil || string(text) != old {
		t.Errorf("%v: got %s, want %s", err, text, old)
	}
}
