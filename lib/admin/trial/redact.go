package trial

import (
	"cmp"
	"regexp"
	"strings"

	"gresnet/lib/hca/report"
)

// secrets are what a site may not want to publish, and what stands for them.
var secrets = []struct {
	found *regexp.Regexp
	by    string
}{
	{regexp.MustCompile(`(?i)(serial[ _-]?(?:number|no)?|\bsn)(["']?[\s:=]+["']?)[^\s"',|]+`), "$1$2<serial>"},
	{regexp.MustCompile(`(?i)\b(?:0x)?[0-9a-f]{12,}\b`), "<number>"},
	{regexp.MustCompile(`(?i)(?:\b[0-9a-f]{1,4}|:)(?::[0-9a-f]{0,4}){2,}(?:\.\d+)*(?:/\d+)?`), "<address>"},
	{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`), "<address>"},
}

// redact takes serial numbers, GUIDs and addresses out of a text. PCI addresses go with them.
func redact(text string) string {
	for _, s := range secrets {
		text = s.found.ReplaceAllString(text, s.by)
	}
	return text
}

// Redacted returns a trial without serial numbers, GUIDs and addresses, and without the host's name.
func Redacted(t report.Trial, host string) *report.Trial {
	clean := func(lines []string) (all []string) {
		for _, l := range lines {
			all = append(all, redact(strings.ReplaceAll(l, cmp.Or(host, "\n"), "<host>")))
		}
		return all
	}
	hcas := append([]report.Tried{}, t.HCAs...)
	for i, h := range hcas {
		hcas[i].Differences, hcas[i].Faults = clean(h.Differences), clean(h.Faults)
		hcas[i].Refused, hcas[i].Verbs = strings.Join(clean([]string{h.Refused}), ""), strings.Join(clean([]string{h.Verbs}), "")
	}
	t.HCAs, t.Unread, t.Restless = hcas, clean(t.Unread), clean(t.Restless)
	return &t
}
