package config_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"gresnet/lib/base/config"
)

func TestThePluginLetsThroughWhatTheSiteCanExport(t *testing.T) {
	text, err := os.ReadFile("../../../spank/lease.c")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)others\[\] = \{(.*?)\}`).FindSubmatch(text)
	if list == nil {
		t.Fatal("spank/lease.c has no list of variables")
	}
	var names []string
	for _, m := range regexp.MustCompile(`"([A-Za-z_]+)"`).FindAllSubmatch(list[1], -1) {
		names = append(names, string(m[1]))
	}
	if !slices.Equal(names, config.Variables()) {
		t.Errorf("spank/lease.c lets through %q, the configuration knows %q", names, config.Variables())
	}
}
