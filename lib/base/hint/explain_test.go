package hint_test

import (
	"strings"
	"testing"

	"gresnet/lib/base/hint"
)

func TestAMessageIsExplainedByItsID(t *testing.T) {
	const want = "GN091, of: What gresnet check finds\n  message: HCA …: it is quarantined\n  what to do: fix the cause, then gresnet release …\n"
	for ids, want := range map[string]string{
		"GN091": want, "gn091": want, "[GN091]": want, "GN091 GN091": want + "\n" + want,
		"GN000": "no message has it", "GN018": "no message has it any more", "91": "it is not an id",
	} {
		var text strings.Builder
		err := hint.Explain(&text, strings.Fields(ids))
		if err != nil && !strings.HasSuffix(err.Error(), want) || err == nil && text.String() != want {
			t.Errorf("%s: %v\n%s", ids, err, text.String())
		}
	}
}

func TestWithoutAnIDTheListIsPrinted(t *testing.T) {
	var text strings.Builder
	if err := hint.Explain(&text, nil); err != nil || strings.Count(text.String(), "\nGN") < 300 {
		t.Errorf("%v: %d bytes", err, text.Len())
	}
}
