package plain_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gresnet/lib/base/plain"
	"gresnet/test/seed"
)

// hostile are bytes that steer a terminal, begin a line, or turn the order of what is read.
var hostile = []string{
	"\x1b[2J", "\x1b]0;x\a", "\n", "\r", "\b", "\x7f", "\x00", "\u009b", "\u0085", "\u2028", "\u202e", "\u2066", "\u200f", "\ufeff",
	"\u00ad", "\U000e0001", "\x9b", "\xff", "\xed\xa0\x80",
}

// text returns a text of harmless and hostile pieces.
func text() (s string) {
	harmless := []string{"cat", " ", "ü", "(pid 1)", "\"", "\\", "漢", "/"}
	for range seed.IntN(6) {
		from := harmless
		if seed.IntN(2) == 0 {
			from = hostile
		}
		s += from[seed.IntN(len(from))]
	}
	return s
}

// isPlain holds a text to have nothing but what is printed as itself, and what is allowed.
func isPlain(t *testing.T, what, in, out, allowed string) {
	t.Helper()
	for _, r := range out {
		if !unicode.IsPrint(r) && !strings.ContainsRune(allowed, r) {
			t.Fatalf("%s of %q is %q", what, in, out)
		}
	}
	if !utf8.ValidString(out) {
		t.Fatalf("%s of %q is %q", what, in, out)
	}
}

func TestNothingThatUsersNameIsPrintedRaw(t *testing.T) {
	for range 20000 {
		in := text()
		isPlain(t, "the name", in, plain.Name(in), "")
		isPlain(t, "the text", in, plain.Text(in), "")
		var b bytes.Buffer
		if n, err := plain.Writer(&b).Write([]byte(in)); n != len(in) || err != nil {
			t.Fatalf("%q: %d bytes are written, %v", in, n, err)
		}
		isPlain(t, "what is written", in, b.String(), "\n\t")
		if same := strings.IndexFunc(in, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(in); same != (plain.Text(in) == in) {
			t.Fatalf("the text of %q is %q", in, plain.Text(in))
		}
	}
}

func TestJSONThatIsWrittenMeansWhatItMeant(t *testing.T) {
	for range 5000 {
		in := strings.ToValidUTF8(text(), "?")
		var b bytes.Buffer
		enc := json.NewEncoder(plain.Writer(&b))
		enc.SetEscapeHTML(false)
		if err := enc.Encode(in); err != nil {
			t.Fatal(err)
		}
		var out string
		if err := json.Unmarshal(b.Bytes(), &out); err != nil || out != in {
			t.Fatalf("%q is written as %s and read as %q, %v", in, b.Bytes(), out, err)
		}
	}
}

func TestANameCannotPassForAPartOfTheSentence(t *testing.T) {
	for in, want := range map[string]string{
		"cat": "cat", "kworker/0:1": "kworker/0:1", "": `""`, "(sd-pam)": `"(sd-pam)"`,
		"cat (pid 1)": `"cat (pid 1)"`, `a"b`: `"a\"b"`, "Büro": `"B\u00fcro"`, "x\u202e": `"x\u202e"`,
	} {
		if got := plain.Name(in); got != want {
			t.Errorf("%q is %s, wanted %s", in, got, want)
		}
	}
}
