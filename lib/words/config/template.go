package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"gresnet/lib/words/document"
)

// Template is the path of a file per job: %j stands for the job's id, %r for
// how often it was requeued, %u for its user's id, %n for the node's name, and
// %% for itself.
type Template string

// verbs are the letters that may follow a percent sign.
const verbs = "jrun%"

// parseTemplate parses a template, which must tell jobs apart.
func parseTemplate(text string) (Template, error) {
	const hint = `GN171 write it like "/var/lib/gresnet/jobs/%j": %j job id, %r restarts, %u user id, %n node`
	if !filepath.IsAbs(text) || filepath.Clean(text) != text {
		return "", document.Fault(fmt.Sprintf("%q is not an absolute path without dots", text), hint)
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			break
		}
		if after == "" || !strings.Contains(verbs, after[:1]) {
			return "", document.Fault(fmt.Sprintf("%q has a %% that stands for nothing", text), hint)
		}
		rest = after[1:]
	}
	if !strings.Contains(strings.ReplaceAll(text, "%%", ""), "%j") {
		return "", document.Fault(fmt.Sprintf("%q is one file for all jobs", text), hint)
	}
	return Template(text), nil
}

// Path returns the file of a job.
func (t Template) Path(job, restarts, uid uint32, node string) string {
	return strings.NewReplacer(
		"%%", "%", "%j", fmt.Sprint(job), "%r", fmt.Sprint(restarts), "%u", fmt.Sprint(uid), "%n", node,
	).Replace(string(t))
}
