package lib_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is a document: its links and the source's paths with their lines, and the anchors that its
// headings make.
type page struct {
	links, paths []link
	anchors      map[string]bool
}

// example is the file that CONTRIBUTING.md adds.
const example = "lib/lease/step/devlink.go"

type link struct {
	line   int
	target string
}

var (
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code     = regexp.MustCompile("`[^`]*`")
	sources  = regexp.MustCompile("`((?:lib|spank|test|conf|packaging|prolog|epilog)/[A-Za-z0-9_./-]+)`")
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
	anyspace = regexp.MustCompile(`\s`)
)

// TestEachLinkAndPathInADocumentLeadsSomewhere follows the links between documents, and looks for the files
// of the source that they name. The anchor of a
// heading is what GitHub makes of it: lower case, no punctuation, hyphens for spaces.
func TestEachLinkAndPathInADocumentLeadsSomewhere(t *testing.T) {
	pages := map[string]page{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), ".") || d.IsDir() && d.Name() == "dist" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			pages[filepath.Clean(path)] = read(string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 10 {
		t.Fatalf("%d documents", len(pages))
	}
	followed := 0
	for path, p := range pages {
		for _, l := range p.paths {
			if _, err := os.Stat(filepath.Join("..", l.target)); err != nil && l.target != example {
				t.Errorf("%s:%d: %s is not there", path, l.line, l.target)
			}
		}
		for _, l := range p.links {
			if strings.Contains(l.target, "://") || strings.HasPrefix(l.target, "mailto:") {
				continue
			}
			followed++
			file, anchor, _ := strings.Cut(l.target, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s:%d: %s leads nowhere: %v", path, l.line, l.target, err)
				continue
			}
			if to, is := pages[target]; is && anchor != "" && !to.anchors[anchor] {
				t.Errorf("%s:%d: %s has no heading #%s", path, l.line, target, anchor)
			}
		}
	}
	if followed < 100 {
		t.Errorf("%d links were followed", followed)
	}
}

// read finds the links and the headings of a document, outside of its blocks of code.
func read(text string) page {
	p := page{anchors: map[string]bool{}}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced || strings.HasPrefix(line, "    ") && !strings.Contains(line, "](") {
			continue
		}
		if hashes, title, is := strings.Cut(line, "# "); is && strings.Trim(hashes, "#") == "" {
			anchor := slug(title)
			for n, base := 1, anchor; p.anchors[anchor]; n++ {
				anchor = base + "-" + string(rune('0'+n))
			}
			p.anchors[anchor] = true
		}
		for _, m := range sources.FindAllStringSubmatch(line, -1) {
			p.paths = append(p.paths, link{i + 1, m[1]})
		}
		for _, m := range linked.FindAllStringSubmatch(code.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, link{i + 1, m[1]})
		}
	}
	return p
}

func slug(title string) string {
	title = linked.ReplaceAllString(title, "")
	return anyspace.ReplaceAllString(dropped.ReplaceAllString(strings.ToLower(title), ""), "-")
}
