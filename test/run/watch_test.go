package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gresnet/test/await"
)

func TestTestsThatSayNothingForTooLongAreEndedAndNamed(t *testing.T) {
	for name, script := range map[string]string{
		"they hang":                        "echo begun; exec sleep 1000",
		"they are deaf to the signal":      "trap '' QUIT; echo begun; exec sleep 1000",
		"they leave what keeps the output": "sleep 60 & echo begun",
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if code := watch(100*time.Millisecond, []string{"sh", "-c", script}, &out); code != 1 {
				t.Errorf("exit %d", code)
			}
			if !strings.Contains(out.String(), "run: sh ") {
				t.Errorf("it says %q", out.String())
			}
		})
	}
}

func TestTestsThatEndSayWhatTheySayAndEndAsTheyDo(t *testing.T) {
	for script, want := range map[string]string{
		"echo well":                     "0 well\n",
		"echo ill >&2; exit 3":          "3 ill\n",
		"echo ill; kill -9 $$":          "1 ill\n",
		"echo one; sleep 0.2; echo two": "0 one\ntwo\n",
	} {
		var out strings.Builder
		code := watch(await.Most(t), []string{"sh", "-c", script}, &out)
		if got := fmt.Sprint(code, " ", out.String()); got != want {
			t.Errorf("%s: %q, wanted %q", script, got, want)
		}
	}
}
