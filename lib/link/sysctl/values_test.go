package sysctl

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"gresnet/test/seed"
)

func TestValuesReadAsAnyObjectOfStringsDoes(t *testing.T) {
	odd := []string{"", "0", "ipv4/conf/rp_filter", `"`, `\`, `":"`, `","`, "{", "}", "a b", "\n", "<&>", "ü", "\u2028", "\xff"}
	word := func() (text string) {
		for range seed.IntN(4) {
			text += odd[seed.IntN(len(odd))]
		}
		return text
	}
	for range 5000 {
		want := map[string]string{}
		for range seed.IntN(5) {
			want[word()] = word()
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if seed.IntN(4) == 0 {
			text, _ = json.MarshalIndent(want, "", " ")
		}
		if len(text) > 2 && seed.IntN(4) == 0 { // and what no program writes
			text[seed.IntN(len(text))] = `{}",: \0`[seed.IntN(8)]
		}
		var got Values
		read := map[string]string(nil)
		gotErr, wantErr := json.Unmarshal(text, &got), json.Unmarshal(text, &read)
		if (gotErr == nil) != (wantErr == nil) || wantErr == nil && !maps.Equal(got, read) {
			t.Fatalf("%s: got %q, %v, want %q, %v", text, got, gotErr, read, wantErr)
		}
	}
	for _, text := range []string{"null", "{}", `{"a":"b"}`} {
		got, want := Values{"x": "y"}, map[string]string{"x": "y"}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(map[string]string(got), want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
