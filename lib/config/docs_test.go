package config_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/config"
	"gresnet/lib/hint"
)

// sections of docs/configuration.md, and a document that has all that the table
// must have, to which an unknown key can be added.
var sections = []struct{ name, heading, text string }{
	{"slurm", "## `[slurm]`", "[slurm]\n"},
	{"deadline", "## `[deadline]`", "[deadline]\n"},
	{"access", "## `[access]`", "[access]\n"},
	{"limits", "## `[limits]`", "[limits]\n"},
	{"environment", "## `[environment]`", "[environment]\n"},
	{"log", "## `[log]`", "[log]\n"},
	{"metrics", "## `[metrics]`", "[metrics]\n"},
	{"accounting", "## `[accounting]`", "[accounting]\n"},
	{"health", "## `[health]`", "[health]\n"},
	{"rdma", "## `[rdma]`", "[rdma]\n"},
	{"uplink", "## `[uplink]`", "[uplink]\n"},
	{"overlay", "## `[overlay]`", "[overlay]\n"},
	{"policy", "## `[[policy]]`", "[[policy]]\ncount = 0\n"},
	{"hca.vf", "### What the PF does for a VF", "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 1\nmatch = \"pci=3b:00.0\"\n[hca.vf]\n"},
	{"hca", "## `[[hca]]`", "[[hca]]\nindex = 0\nmatch = \"rdma=a\"\n"},
}

func TestEveryKeyIsDocumented(t *testing.T) {
	for _, s := range sections {
		text := documentOf(t, s.heading)
		known := knownKeys(t, s.text)
		for _, key := range known {
			if !regexp.MustCompile("`" + key + "`|(?m:^" + key + " +=)").MatchString(text) {
				t.Errorf("docs/configuration.md does not have %s.%s", s.name, key)
			}
		}
		for _, row := range rows(text) {
			if !slices.Contains(known, row.key) {
				t.Errorf("docs/configuration.md has %s.%s, which is no key", s.name, row.key)
			}
		}
	}
}

func TestTheRuleForUdevIsTheOneThatIsInstalled(t *testing.T) {
	installed, err := os.ReadFile("../../packaging/systemd/udev.rules")
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`(?m)^[^#\n].*\n`).FindAllString(string(installed), -1)
	if len(rules) < 2 || !strings.Contains(documentOf(t, "### On the node"), "\n    "+strings.Join(rules, "    ")) {
		t.Errorf("docs/configuration.md has another rule than %q", rules)
	}
}

func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	for _, s := range sections {
		if strings.HasPrefix(s.text, "[[") {
			continue // of what is not there nothing is the default
		}
		for _, row := range rows(documentOf(t, s.heading)) {
			value := strings.Trim(row.value, "`")
			if value == row.value {
				continue // words for people: there is none, or it is looked for
			}
			got, err := config.Parse([]byte(s.text+row.key+" = "+value+"\n"), "f")
			if err != nil || !reflect.DeepEqual(got, config.Default()) {
				t.Errorf("%s.%s is %s in docs/configuration.md; with that the configuration is %+v, %v", s.name, row.key, value, got, err)
			}
		}
	}
}

// knownKeys are those that the hint for an unknown one lists.
func knownKeys(t *testing.T, text string) []string {
	t.Helper()
	_, err := config.Parse([]byte(text+"such_a_key_there_is_not = 1\n"), "f")
	list, listed := strings.CutPrefix(hint.Of(err), "known keys are ")
	if !listed {
		t.Fatalf("%q with an unknown key: %v has the hint %q", text, err, hint.Of(err))
	}
	return strings.Split(list, ", ")
}

// documentOf is a section of the document, without the headings below it.
func documentOf(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading)
	if !found {
		t.Fatalf("docs/configuration.md has no %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n##")
	return section
}

type row struct{ key, value string }

// rows are those of the section's table of keys.
func rows(section string) []row {
	_, table, found := strings.Cut(section, "\n| key | default | |\n")
	if !found {
		return nil
	}
	var all []row
	for _, line := range strings.Split(table, "\n")[1:] {
		m := regexp.MustCompile("^\\| `([a-z_]+)` \\| (.*?) ?\\| ").FindStringSubmatch(line)
		if m == nil {
			break
		}
		all = append(all, row{m[1], m[2]})
	}
	return all
}
