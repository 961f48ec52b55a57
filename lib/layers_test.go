// Package lib_test holds the packages to their layers: a package imports only
// packages of layers below its own, and the kernel stays on layers 1 to 3.
package lib_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// baseLayer has pure packages, which may need each other's words; nothing else in one layer may.
const baseLayer = 0

// kernelLayer is the highest layer where the kernel is asked.
const kernelLayer = 3

// askTheKernel are packages of other layers that ask the kernel themselves, and what for.
var askTheKernel = map[string]string{
	"gresnet/lib/admin/cli":      "reads its own CPU time, and sends to journald's socket",
	"gresnet/lib/kernel/detach":  "starts processes that can be left behind, and makes raw system calls there",
	"gresnet/lib/admin/metrics":  "opens a file without following a link",
	"gresnet/lib/kernel/netlink": "asks over netlink",
	"gresnet/lib/admin/setup":    "makes files with the owner and the attributes of those that they replace",
	"gresnet/lib/admin/trial":    "starts processes in a job's namespaces and as a job's user, and kills some",
	"gresnet/lib/state/table":    "reads and makes links with their owners and times",
	"gresnet/lib/base/trust":     "opens a file without following a link, and reads who owns it",
	"gresnet/prolog/gresnet":     "reads on which file system a folder is",
}

var (
	row  = regexp.MustCompile(`(?m)^\| ([0-9]+) \| ([^|]+) \|`)
	name = regexp.MustCompile("`([^`]+)`")
)

// layers reads which package is in which layer from the table in docs/architecture.md.
func layers(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, _ := strings.Cut(string(text), "\n## The house\n")
	house, _, _ = strings.Cut(house, "\n## ")
	all := map[string]int{}
	for _, r := range row.FindAllStringSubmatch(house, -1) {
		layer, err := strconv.Atoi(r[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range name.FindAllStringSubmatch(r[2], -1) {
			if _, twice := all["gresnet/"+n[1]]; twice {
				t.Errorf("docs/architecture.md has %s twice", n[1])
			}
			all["gresnet/"+n[1]] = layer
		}
	}
	if len(all) < 10 {
		t.Fatalf("docs/architecture.md has a table of %d packages", len(all))
	}
	return all
}

type goPackage struct {
	ImportPath, Dir  string
	Imports, GoFiles []string
}

// packages lists the packages of the programs.
func packages(t *testing.T) (list []goPackage) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "gresnet/lib/...", "gresnet/prolog/...", "gresnet/epilog").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != "gresnet/lib" { // this test
			list = append(list, p)
		}
	}
	return list
}

func TestALayerImportsOnlyLayersBelowIt(t *testing.T) {
	layers := layers(t)
	seen := map[string]bool{}
	for _, p := range packages(t) {
		layer, known := layers[p.ImportPath]
		if !known {
			t.Errorf("%s has no layer: say in the table of docs/architecture.md where it lives", p.ImportPath)
			continue
		}
		seen[p.ImportPath] = true
		for _, i := range p.Imports {
			if below, ours := layers[i]; ours && below >= layer && layer != baseLayer {
				t.Errorf("%s (layer %d) imports %s (layer %d)", p.ImportPath, layer, i, below)
			}
		}
	}
	for p := range layers {
		if !seen[p] {
			t.Errorf("docs/architecture.md has %s, which is not there", p)
		}
	}
}

func TestOnlyTheKernelsLayerAsksTheKernel(t *testing.T) {
	layers := layers(t)
	asks := map[string]bool{}
	for _, p := range packages(t) {
		for _, i := range p.Imports {
			kernel := i == "syscall" || i == "golang.org/x/sys/unix" || strings.HasPrefix(i, "github.com/vishvananda/")
			if layer := layers[p.ImportPath]; !kernel || layer > baseLayer && layer <= kernelLayer {
				continue
			}
			asks[p.ImportPath] = true
			if askTheKernel[p.ImportPath] == "" {
				t.Errorf("%s imports %s: the kernel is for layers up to %d", p.ImportPath, i, kernelLayer)
			}
		}
	}
	for p := range askTheKernel {
		if !asks[p] {
			t.Errorf("%s does not ask the kernel any more: take it off this test's list", p)
		}
	}
}
