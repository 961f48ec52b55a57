// Package lib_test holds the house to its floors: a package imports only
// packages of floors below its own, and the kernel stays on floor 1.
package lib_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

var floors = map[string]int{
	"gresnet/lib/job": 0, "gresnet/lib/indices": 0, "gresnet/lib/node": 0, "gresnet/lib/config": 0, "gresnet/lib/hint": 0, "gresnet/lib/mount": 0, "gresnet/lib/clock": 0, "gresnet/lib/slurm": 0, "gresnet/lib/socket": 0, "gresnet/lib/aside": 0, "gresnet/lib/trust": 0,
	"gresnet/lib/netns": 1, "gresnet/lib/mover": 1, "gresnet/lib/link": 1, "gresnet/lib/rdma": 1, "gresnet/lib/char": 1, "gresnet/lib/sysfs": 1, "gresnet/lib/proc": 1, "gresnet/lib/nft": 1, "gresnet/lib/bpf": 1, "gresnet/lib/udev": 1,
	"gresnet/lib/journal": 2, "gresnet/lib/lock": 2, "gresnet/lib/gres": 2, "gresnet/lib/scan": 2, "gresnet/lib/uplink": 2,
	"gresnet/lib/step": 3, "gresnet/lib/source": 3, "gresnet/lib/stock": 3, "gresnet/lib/overlay": 3,
	"gresnet/lib/plan": 4, "gresnet/lib/check": 4, "gresnet/lib/environment": 4, "gresnet/lib/metrics": 4,
	"gresnet/lib/lease": 5,
	"gresnet/lib/door":  6,
	"gresnet/prolog":    7, "gresnet/epilog": 7,
}

// pure packages of floor 0 may need each other's words; nothing else on one floor may.
const wordsFloor = 0

func TestAFloorImportsOnlyFloorsBelowIt(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "gresnet/lib/...", "gresnet/prolog", "gresnet/epilog").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "gresnet/lib" {
			continue // this test
		}
		floor, known := floors[p.ImportPath]
		if !known {
			t.Errorf("%s has no floor: say in this test where it lives", p.ImportPath)
			continue
		}
		seen++
		for _, i := range p.Imports {
			below, ours := floors[i]
			if ours && below >= floor && floor != wordsFloor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, floor, i, below)
			}
			kernel := i == "golang.org/x/sys/unix" || strings.HasPrefix(i, "github.com/vishvananda/")
			if kernel && floor != 1 && p.ImportPath != "gresnet/lib/lock" && p.ImportPath != "gresnet/lib/socket" && p.ImportPath != "gresnet/lib/aside" && p.ImportPath != "gresnet/lib/clock" && p.ImportPath != "gresnet/lib/mount" {
				t.Errorf("%s imports %s: the kernel is floor 1's", p.ImportPath, i)
			}
		}
	}
	if seen != len(floors) {
		t.Errorf("%d packages were seen, this test knows %d", seen, len(floors))
	}
}
