package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// drawn writes a document of random tables with texts. One key has a number, and wrong is its line.
func drawn(r *rand.Rand) (text string, wrong int) {
	values := []string{`"plain"`, `'a = 1 # none'`, "\"\"\"\nthree\n[not.a.table]\n\"\"\"", "\"a \\\" [x]\" # a comment", "[\"of\",\n  # inside\n  \"lines\"]"}
	bad := r.IntN(12)
	for n := range 12 {
		switch r.IntN(4) {
		case 0:
			text += "\n# key = 7\n"
		case 1:
			text += "\r\n"
		}
		text += fmt.Sprintf("[[t]]\nfiller = %s\n", values[r.IntN(len(values))])
		value := "\"right\""
		if n == bad {
			value, wrong = "7", 1+strings.Count(text, "\n")
		}
		text += "key = " + value + "\n"
	}
	return text, wrong
}

func TestAFaultNamesTheLineOfItsKeyWhateverStandsAroundIt(t *testing.T) {
	for seed := range uint64(500) {
		text, line := drawn(rand.New(rand.NewPCG(seed, 0)))
		d, top, err := parseTOML([]byte(text), "f")
		if err != nil {
			t.Fatalf("seed %d: %v:\n%s", seed, err, text)
		}
		for _, table := range top.Tables("t") {
			table.Text("key")
		}
		if err := d.Err(); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("f:%d: t.key: ", line)) {
			t.Fatalf("seed %d: got %v, want a fault in line %d:\n%s", seed, err, line, text)
		}
	}
}

func TestWhatNobodyAsksForIsAFaultOnlyIfItIsNotAllowed(t *testing.T) {
	for text, want := range map[string]string{
		"key = \"a\"\n":              "",
		"key = \"a\"\nkye = \"b\"\n": "f:2: unknown key \"kye\"",
		"\nKey = \"a\"\n":            "f:2: unknown key \"Key\"",
	} {
		d, top, err := parseTOML([]byte(text), "f")
		if err != nil {
			t.Fatal(err)
		}
		top.Allow("key")
		got := ""
		if err := d.Err(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
