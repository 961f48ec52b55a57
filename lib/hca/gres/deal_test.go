package gres_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/test/machines"
	"gresnet/test/seed"
)

// random returns a machine with sockets, root complexes of several domains, switches in a row, and cards of one to three
// functions. Some are GPUs. Of some the firmware does not say the NUMA node, or another than of their neighbors.
func random(r *rand.Rand) string {
	text, domain, bus, gpus, hcas := "", "", 0, 0, 0
	const nodes = 4
	for n := range nodes * r.IntN(2) {
		text += fmt.Sprintf("numa %d", n)
		for o := range nodes {
			text += fmt.Sprint(" ", []int{10, 12, 32}[min(n^o, 2)])
		}
		text += "\n"
	}
	anyNode := func() string { return fmt.Sprint(r.IntN(nodes+1) - 1) }
	orderly := r.IntN(2) == 0
	address := func(function int) string { bus++; return fmt.Sprintf("%s:%02x:00.%d", domain, bus, function) }
	var fill func(path, numa string, depth int)
	fill = func(path, numa string, depth int) {
		for range 1 + r.IntN(3) {
			if !orderly && r.IntN(4) == 0 {
				numa = anyNode()
			}
			switch kind := r.IntN(4); {
			case kind == 0 && depth < 5:
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
		domain = []string{"0000", "0000", fmt.Sprintf("%04x", root), fmt.Sprintf("1%04x", root)}[r.IntN(4)]
		fill(fmt.Sprintf("pci%s:%02x", domain, 0xa0+root), anyNode(), 0)
	}
	return text
}

// wish is which HCAs are nearest to a GPU, by their places in the mapping, and how near.
type wish struct {
	hcas     []int
	distance node.Distance
}

func wishOf(top gres.Topology, m gres.Mapping, gpu int) (w wish) {
	w.distance = node.Location{}.Nearest(nil)
	for i, e := range m {
		d := top.HCAs[e.HCA.ID].To(top.GPUs[gpu])
		if nearer := d.Compare(w.distance); nearer < 0 {
			w = wish{nil, d}
		} else if nearer > 0 {
			continue
		}
		w.hcas = append(w.hcas, i)
	}
	return w
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
		if len(mapping) == 0 {
			continue
		}
		served, err := top.Serve(mapping, nil)
		if err != nil {
			t.Fatal(err)
		}
		nearest := map[int]bool{}  // HCAs that are nearest to some GPU
		of := map[string][]int{}   // for GPUs with the same nearest HCAs, of how many cards each has some
		first := map[string]wish{} // of these GPUs, the nearest one's
		groups := make([]string, len(top.GPUs))
		for g := range top.GPUs {
			w := wishOf(top, mapping, g)
			cards, group := map[string]bool{}, fmt.Sprint(w.hcas)
			groups[g] = group
			for i, e := range served {
				near := slices.Contains(w.hcas, i)
				nearest[i] = nearest[i] || near
				if !slices.Contains(e.GPUs, g) {
					continue
				}
				card, _, _ := strings.Cut(e.HCA.ID.PCI, ".")
				if cards[card] = true; !near {
					fault("GPU %d is served by %s, and others are nearer", g, e.HCA.Name)
				}
			}
			if len(cards) == 0 {
				fault("GPU %d is served by none", g)
			}
			of[group] = append(of[group], len(cards))
			if was, seen := first[group]; !seen || w.distance.Compare(was.distance) < 0 {
				first[group] = w
			}
		}
		for i, e := range served {
			if nearest[i] != (len(e.GPUs) > 0) {
				fault("%s serves GPUs %v, is nearest to some: %t", e.HCA.Name, e.GPUs, nearest[i])
			}
		}
		for group, counts := range of {
			if slices.Max(counts)-slices.Min(counts) > 1 {
				fault("of %s, GPUs get %v cards", group, counts)
			}
			// Who has enough HCAs that nobody nearer wants leaves the others to those.
			wanted := func(i int) bool {
				for other, w := range first {
					if other != group && slices.Contains(w.hcas, i) && w.distance.Compare(first[group].distance) < 0 {
						return true
					}
				}
				return false
			}
			free := slices.DeleteFunc(slices.Clone(first[group].hcas), wanted)
			for i, e := range served {
				if len(free) >= len(counts) && wanted(i) && slices.ContainsFunc(e.GPUs, func(g int) bool { return groups[g] == group }) {
					fault("%s serves GPUs %v: some of them have %d others, and some are nearer", e.HCA.Name, e.GPUs, len(free))
				}
			}
		}
		for g := range top.GPUs {
			if again, err := top.Serve(mapping, []int{g}); err != nil || !reflect.DeepEqual(again, served) {
				fault("a job with GPU %d meets other pairs: %v, %v: %v", g, again, served, err)
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

// On this machine each second GPU has a NIC beside it. The order is Slurm's, as File= lines or device nodes have it.
func TestNeighborsShareAnHCAInWhateverOrderSlurmHasTheGPUs(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	top, mapping := topologyOf(t, all["hgx-h100-alternate-nics"])
	gpus := slices.Clone(top.GPUs)
	for n := range 4 * 4 * 4 * 4 {
		order := []int{n % 4, n / 4 % 4, n / 16 % 4, n / 64}
		if !slices.Equal(slices.Sorted(slices.Values(order)), []int{0, 1, 2, 3}) || slices.Index(order, 0)/2 == slices.Index(order, 2)/2 {
			continue // no order, or one that has both NICs in one pair
		}
		for i, gpu := range order {
			top.GPUs[i] = gpus[gpu]
		}
		served, err := top.Serve(mapping, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range served {
			if pair := fmt.Sprint(e.GPUs); !slices.Contains([]string{"[0 1]", "[2 3]", "[4 5]", "[6 7]"}, pair) {
				t.Errorf("in the order %v, %s serves %s", order, e.HCA.Name, pair)
			}
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
