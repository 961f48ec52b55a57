package gres_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/hca/gres"
	"gresnet/lib/words/node"
	"gresnet/test/machines"
	"gresnet/test/seed"
)

// random returns a machine with sockets, root complexes, switches in a row, and cards of one to three
// functions. Some are GPUs.
func random(r *rand.Rand) string {
	text, bus, gpus, hcas := "", 0, 0, 0
	address := func(function int) string { bus++; return fmt.Sprintf("0000:%02x:00.%d", bus, function) }
	var fill func(path, numa string, depth int)
	fill = func(path, numa string, depth int) {
		for range 1 + r.IntN(3) {
			switch kind := r.IntN(4); {
			case kind == 0 && depth < 3:
				fill(path+"/"+address(0), numa, depth+1)
			case kind == 1:
				text += fmt.Sprintf("gpu%d %s %s/%s\n", gpus, numa, path, address(0))
				gpus++
			case kind > 1:
				card := address(0)
				for f := range 1 + r.IntN(3) {
					text += fmt.Sprintf("hca:mlx5_%d %s %s/%s%d\n", hcas, numa, path, card[:len(card)-1], f)
					hcas++
				}
			}
		}
	}
	for root := range 1 + r.IntN(6) {
		fill(fmt.Sprintf("pci0000:%02x", 0xa0+root), fmt.Sprint(r.IntN(3)-r.IntN(2)), 0)
	}
	return text
}

// TestOnAnyMachineTheNearestHCAsAreDealtAndNoneOfThemIdles holds the deal against what it promises.
func TestOnAnyMachineTheNearestHCAsAreDealtAndNoneOfThemIdles(t *testing.T) {
	r := seed.Rand()
	for range 1000 {
		text := random(r)
		fault := func(format string, args ...any) {
			t.Fatalf("%s, on the machine\n%s", fmt.Sprintf(format, args...), text)
		}
		machine, err := machines.Parse("random", text)
		if err != nil {
			t.Fatal(err)
		}
		top, mapping := topologyOf(t, machine)
		served, err := top.Serve(mapping, nil)
		if err != nil {
			t.Fatal(err)
		}
		nearest := map[string]bool{} // HCAs that are nearest to some GPU
		of := map[string][]int{}     // for GPUs with the same nearest HCAs, of how many cards each has some
		for g, gpu := range top.GPUs {
			closest := node.Location{}.Nearest(nil)
			for _, e := range mapping {
				if d := top.HCAs[e.HCA.ID].To(gpu); d.Compare(closest) < 0 {
					closest = d
				}
			}
			has, group := map[string]bool{}, ""
			for _, e := range served {
				near := top.HCAs[e.HCA.ID].To(gpu).Compare(closest) == 0
				if near {
					nearest[e.HCA.Name] = true
					group += " " + e.HCA.Name
				}
				if !slices.Contains(e.GPUs, g) {
					continue
				}
				card, _, _ := strings.Cut(e.HCA.ID.PCI, ".")
				if has[card] = true; !near {
					fault("GPU %d is served by %s, and others are nearer", g, e.HCA.Name)
				}
			}
			if len(has) == 0 && len(mapping) > 0 {
				fault("GPU %d is served by none", g)
			}
			of[group] = append(of[group], len(has))
		}
		for _, e := range served {
			if nearest[e.HCA.Name] != (len(e.GPUs) > 0) {
				fault("%s serves GPUs %v, is nearest to some: %t", e.HCA.Name, e.GPUs, nearest[e.HCA.Name])
			}
		}
		for group, counts := range of {
			if slices.Max(counts)-slices.Min(counts) > 1 {
				fault("of%s, GPUs get %v cards", group, counts)
			}
		}
		shuffled := slices.Clone(mapping)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, err := top.Serve(shuffled, nil)
		if err != nil {
			t.Fatal(err)
		}
		byIndex := func(a, b gres.Entry) int { return a.Index - b.Index }
		slices.SortFunc(again, byIndex)
		slices.SortFunc(served, byIndex)
		if !reflect.DeepEqual(again, served) {
			fault("the order of the entries decides: %v, %v", served, again)
		}
	}
}

func TestEachGPUGetsOnePartOfAnHCAThatIsGivenInParts(t *testing.T) {
	for _, c := range []struct{ parts, gpus int }{{1, 1}, {1, 3}, {2, 4}, {3, 4}, {4, 4}, {8, 4}, {8, 1}} {
		at := node.Location{PCI: "0000:07:00.0", Path: []string{"pci0000:00", "0000:00:01.0"}}
		top := gres.Topology{HCAs: map[node.ID]node.Location{}}
		for range c.gpus {
			top.GPUs = append(top.GPUs, at)
		}
		var vfs gres.Mapping
		for i := range c.parts {
			id := node.ID{PCI: at.PCI, VF: fmt.Sprint(i)}
			top.HCAs[id] = at
			vfs = append(vfs, gres.Entry{Gres: "nic", Index: i, HCA: node.HCA{ID: id}})
		}
		m, err := top.Serve(vfs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []int
		for _, e := range m {
			if most := (c.gpus + c.parts - 1) / c.parts; len(e.GPUs) > most {
				t.Errorf("%d parts, %d GPUs: one serves %v", c.parts, c.gpus, e.GPUs)
			}
			all = append(all, e.GPUs...)
		}
		if slices.Sort(all); len(all) != c.gpus || len(slices.Compact(all)) != c.gpus {
			t.Errorf("%d parts, %d GPUs: %v are served", c.parts, c.gpus, all)
		}
	}
}
