package hint_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/hint"
	"gresnet/lib/lease/event"
	"gresnet/test/golden"
)

// said is an error, or a finding of check's, and what to do about it, as the code has
// them: … is what is filled in. The id of the message is at the begin of what to do.
type said struct{ problem, do string }

// listFile is what `gresnet explain` reads. An id is never used again for something else.
const listFile = "../messages.txt"

// elsewhere are problems that their hint meets as a value, by the hint's beginning.
var elsewhere = map[string]string{
	"root must own it and all folders on its path, none": "…: it is not root's, is a link, or others than root may write it",
	"compare `rdma dev`":                "claim … for job …: no such HCA",
	"repair the HCA,":                   "choose …: … (…): is quarantined",
	"see whether job … still runs here": "choose …: … (…): job … has it",
	"slurmd sets the SLURM_ variables":  "variable SLURM_…: …",
	"gresnet check says whether":        "guard …: …",
	"is this node meant to have HCAs?":  "list RDMA devices: no RDMA subsystem in the kernel",
	"see … --help":                      "invalid value … for flag …: …",
	"write it like nic:2, nic:mlx5":     "--gres …: …",
	"have … on a file system":           "…: read-only file system, or no space left on device",
	"let units with PrivateNetwork=":    "set the RDMA netns mode to …: …: …",
}

// TestEveryErrorIsExplainedWithItsHint makes the list out of the code, and gives new messages an id (go test
// -update).
func TestEveryErrorIsExplainedWithItsHint(t *testing.T) {
	src := read(t, "../../../lib", "../../../prolog", "../../../prolog/gresnet", "../../../epilog")
	src.number(t)
	var text strings.Builder
	for _, part := range []struct {
		title, dir string
		find       func(*source, function) []said
	}{
		{"Refusals: a job asked for what it cannot have, and its tasks fail", "../../../lib", refusals},
		{"The configuration", "../../../lib", faults},
		{"What gresnet check finds", "../../../lib/admin/check", findings},
		{"What gresnet setup leaves to a person", "../../../lib/admin/setup", leavings},
		{"Prolog, epilog and their commands", "../../..", hints},
	} {
		rows := src.rows(t, part.dir, part.find)
		if len(rows) < 5 {
			t.Errorf("%s: %d rows", part.title, len(rows))
		}
		list(t, &text, part.title, rows)
	}
	list(t, &text, "How a run ended", endings)
	list(t, &text, "Warnings: nothing failed, and a person should know", warnings)
	list(t, &text, "What the plugin says, in the job's output and in slurmd's log", plugin(t))
	others(t, &text, src)
	retired(t, &text, src)
	golden.Check(t, listFile, strings.TrimPrefix(text.String(), "\n"))
}

// TestThePageOfErrorsHasOnlyIDsThatMessagesHave holds docs/errors.md against the list.
func TestThePageOfErrorsHasOnlyIDsThatMessagesHave(t *testing.T) {
	page, err := os.ReadFile("../../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), "\n- GN") {
		t.Error("docs/errors.md has the list that gresnet explain prints: it is in lib/base/hint/messages.txt")
	}
	used := read(t, "../../../lib", "../../../prolog", "../../../prolog/gresnet", "../../../epilog").used(t)
	for _, id := range regexp.MustCompile(`GN\d{3}`).FindAllString(string(page), -1) {
		if _, is := used[id]; !is {
			t.Errorf("no message has %s", id)
		}
	}
}

// list writes rows, those with one id as one, and wants each to have an id if it has something to do of
// its own. A message that passes on what to do has the id of the message that says so.
func list(t *testing.T, text *strings.Builder, title string, rows []said) {
	t.Helper()
	fmt.Fprintf(text, "\n# %s\n", title)
	var ids []string
	problems, dos := map[string][]string{}, map[string][]string{}
	for _, r := range rows {
		id, do := hint.Cut(r.do)
		switch {
		case id == "" && letter.MatchString(do):
			t.Errorf("%q has no id: go test ./lib/base/hint -update gives it one", do)
		case id == "":
			continue
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		problems[id] = add(problems[id], r.problem)
		dos[id] = add(dos[id], do)
	}
	for _, id := range ids {
		if strings.Contains(text.String(), "\n"+id+": ") {
			continue // an earlier section has it
		}
		for i, p := range problems[id] {
			problems[id][i] = strings.ReplaceAll(filled.ReplaceAllString(p, ""), "%%", "%")
		}
		fmt.Fprintf(text, "%s: %s → %s\n", id, cmp.Or(strings.Join(problems[id], "; "), "…"), strings.TrimSpace(strings.Join(dos[id], "; ")))
	}
}

// filled is what the program fills in after all that a reader can look for.
var filled = regexp.MustCompile(`(: …+)+$`)

// add appends what a list does not have, nor says with more words.
func add(list []string, one string) []string {
	if one == "" {
		one = "…"
	}
	for i, have := range list {
		switch {
		case strings.Contains(have, one):
			return list
		case strings.Contains(one, have):
			list[i] = one
			return list
		}
	}
	return append(list, one)
}

// numbered is what to do as the plugin's messages have it, with the id at the end.
var numbered = regexp.MustCompile(`^(.*) \[(GN\d{3})\]$`)

// plugin returns what the plugin's C code says with a hint.
func plugin(t *testing.T) (all []said) {
	t.Helper()
	files, err := filepath.Glob("../../../spank/*.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`(?s)(?:slurm_error|snprintf)\((.*?)\);\n`).FindAllStringSubmatch(string(text), -1) {
			words, format := "", true
			for _, token := range regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|,|\b[A-Z][A-Z_]+\b`).FindAllStringSubmatch(call[1], -1) {
				switch {
				case token[0] == ",":
					format = false
				case token[0][0] == '"':
					words += token[1]
				case format:
					words += "…" // a macro
				}
			}
			words = regexp.MustCompile(`%[-+#0-9.*]*[zjlh]*[a-zA-Z]`).ReplaceAllString(words, "…")
			words = strings.NewReplacer(`\"`, `"`, `\n`, "").Replace(words)
			if problem, do, hinted := strings.Cut(strings.TrimPrefix(words, "gresnet: "), "; hint: "); hinted {
				all = append(all, said{problem, numbered.ReplaceAllString(do, "$2 $1")})
			}
		}
	}
	if len(all) < 10 {
		t.Errorf("%d hints of the plugin", len(all))
	}
	slices.SortFunc(all, func(a, b said) int { return cmp.Or(strings.Compare(a.problem, b.problem), strings.Compare(a.do, b.do)) })
	return slices.Compact(all)
}

// endings are the ids of how a run ended, which errors have that come without a hint.
var endings = []said{
	{"any other error: nothing was changed, or all of it was undone", "GN001 the node is as it was; fix the cause, then return the node to service"},
	{"any other error, and something remains to be undone", "GN002 HCAs that were not returned are kept from later jobs (gresnet status); fix the cause, then run this again"},
	{"the same, for one job", "GN003 HCAs that were not returned are kept from later jobs; fix the cause, then run: SLURM_JOB_ID=… gresnet-epilog"},
}

// warnings are those that a run prints. lib/admin/cli knows their ids by the kind of event.
var warnings = []said{
	{"port … of … came back with …, it had …; … has no carrier (EVENT=port-worse)", "GN004 see whether cable, switch and subnet manager are in order; a link that comes up late needs no more than that"},
	{"port … of … counted … more of … for the job, [health] allows … (EVENT=port-worse)", "GN641 look at cable and switch; gresnet release ends a quarantine"},
	{"the RDMA netns mode is …, … wants … (EVENT=mode-wrong)", "GN005 gresnet check says which mode the node has after a reboot"},
	{"read …: it is not as it was written (EVENT=table-unread)", "GN006 see gresnet status: no job gets the HCA that the entry is about"},
	{"… (…) is released: the node does not have it any more (EVENT=hca-released)", "GN377 see in journalctl -k where the HCA went; jobs get it when the node has it again"},
	{"what came back is not as it was, a manager or udev is still at it (EVENT=remark)", "GN007 compare what the line names with what the interface should have"},
}

// kinds are the kinds of events that lib/admin/cli has an id for.
func TestEachKindOfWarningIsDocumented(t *testing.T) {
	src := read(t, "../../../lib", "../../../prolog", "../../../prolog/gresnet", "../../../epilog")
	for name, kind := range map[string]event.Kind{"PortWorse": event.PortWorse, "ModeWrong": event.ModeWrong, "TableUnread": event.TableUnread, "HCAReleased": event.HCAReleased, "Remark": event.Remark} {
		if !slices.ContainsFunc(warnings, func(w said) bool { return strings.Contains(w.problem, "EVENT="+string(kind)+")") }) {
			t.Errorf("warnings of kind %s are not documented", kind)
		}
		delete(src.warned, name)
	}
	for kind := range src.warned {
		t.Errorf("somebody warns by an event of kind %s: give it an id in lib/admin/cli, and a row here", kind)
	}
}

// others writes the messages whose words this test does not find beside what to do, so that each id is
// in the list.
func others(t *testing.T, text *strings.Builder, src *source) {
	t.Helper()
	var rows []said
	for id, do := range src.used(t) {
		if !strings.Contains(text.String(), "\n"+id+": ") {
			rows = append(rows, said{"…", id + " " + do})
		}
	}
	slices.SortFunc(rows, func(a, b said) int { return strings.Compare(a.do, b.do) })
	list(t, text, "Others, whose line says what is wrong", rows)
}

// retired writes which ids there were.
func retired(t *testing.T, text *strings.Builder, src *source) {
	t.Helper()
	used := src.used(t)
	var gone []string
	for id := range known(t) {
		if _, is := used[id]; !is {
			gone = append(gone, id)
		}
	}
	if slices.Sort(gone); len(gone) > 0 {
		fmt.Fprintf(text, "\n# No message has these any more\n%s\n", strings.Join(gone, "\n"))
	}
}
