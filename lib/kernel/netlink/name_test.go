package netlink_test

import (
	"encoding/json"
	"testing"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/seed"
)

func TestANameKeepsItsBytesInJSON(t *testing.T) {
	parts := []string{"", "ib0", "caf\xe9", "\xff", "\x80\x81", "\xed\xb0\x80", "é", "\ufffd", "😀", `\`, `\udcff`, `"`, "<", "\t", "\x01", "\xf0\x9f", "\u2028"}
	for range 20000 {
		var name string
		for range seed.IntN(5) {
			name += parts[seed.IntN(len(parts))]
		}
		text, err := json.Marshal(map[string]netlink.Name{"name": netlink.Name(name)})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]netlink.Name
		if err := json.Unmarshal(text, &got); err != nil || string(got["name"]) != name {
			t.Fatalf("%q is %s, and read %q, %v", name, text, got["name"], err)
		}
		// Programs of before wrote each name as a string.
		text, err = json.Marshal(map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil || string(got["name"]) != replaced(name) {
			t.Fatalf("%q was %s before, and is read %q, %v", name, text, got["name"], err)
		}
	}
}

// replaced has U+FFFD for each byte that is not UTF-8.
func replaced(name string) string { return string([]rune(name)) }

func TestWhatIsNoNameInJSONIsAnError(t *testing.T) {
	for _, text := range []string{`7`, `"\u12"`, `"\x"`, `{}`, `"\udc80`, `["a"]`, `[]`, `["aWIw","aWIw"]`} {
		var n netlink.Name
		if err := json.Unmarshal([]byte(text), &n); err == nil {
			t.Errorf("%s is read as %q", text, n)
		}
	}
	n := netlink.Name("kept")
	if err := json.Unmarshal([]byte("null"), &n); err != nil || n != "kept" {
		t.Errorf("null makes it %q, %v", n, err)
	}
}
