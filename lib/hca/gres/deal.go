package gres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gresnet/lib/base/node"
)

// deal gives each GPU the HCAs that are nearest to it. GPUs that have the same nearest HCAs share
// these: each gets some of them, whole cards if there are enough, or else some of these GPUs get one
// together. The GPUs with the nearest HCAs come first, so that what sits beside one GPU is its own.
// All of the node's GPUs and HCAs are dealt, whoever asks, so that every job meets the same pairs.
func (t Topology) deal(m Mapping) Mapping {
	m = slices.Clone(m)
	adapters := t.adapters(m)
	for _, g := range t.groups(adapters) {
		g.deal()
	}
	for _, a := range adapters {
		a.divide(m)
	}
	return m
}

// adapter is an HCA that jobs get as a whole or in parts.
type adapter struct {
	id      node.ID // of the HCA as a whole; a VF's is its PF's
	at      node.Location
	entries []int // its places in the mapping, one for each part
	gpus    []int // the GPUs that it serves
}

// adapters returns the HCAs of a mapping that sit on PCI, in the order of their addresses.
func (t Topology) adapters(m Mapping) []*adapter {
	whole := map[node.ID]*adapter{}
	for i, e := range m {
		at, known := t.HCAs[e.HCA.ID]
		if !known {
			continue
		}
		id := e.HCA.ID.Whole()
		if id.Kind().Splits() {
			id = node.ID{PCI: id.PCI}
		}
		if whole[id] == nil {
			whole[id] = &adapter{id: id, at: at}
		}
		whole[id].entries = append(whole[id].entries, i)
	}
	return slices.SortedFunc(maps.Values(whole), func(a, b *adapter) int { return node.Compare(a.id, b.id) })
}

// card returns the PCI device whose functions are a card's ports: 0000:0c:00 of 0000:0c:00.1.
func (a *adapter) card() string {
	card, _, _ := strings.Cut(a.id.PCI, ".")
	return card
}

// group has GPUs that have the same nearest HCAs.
type group struct {
	gpus     []int
	adapters []*adapter
	distance node.Distance // of the GPU that is nearest to them
}

// groups divides the GPUs by their nearest HCAs, the nearest first.
func (t Topology) groups(adapters []*adapter) (all []*group) {
	if len(adapters) == 0 {
		return nil
	}
	of := map[string]*group{}
	for gpu, at := range t.GPUs {
		if !t.has(gpu) {
			continue
		}
		nearest := slices.MinFunc(adapters, func(a, b *adapter) int { return a.at.To(at).Compare(b.at.To(at)) }).at.To(at)
		near := slices.DeleteFunc(slices.Clone(adapters), func(a *adapter) bool { return a.at.To(at).Compare(nearest) != 0 })
		key := fmt.Sprint(near)
		if of[key] == nil {
			of[key] = &group{adapters: near, distance: nearest}
			all = append(all, of[key])
		}
		g := of[key]
		g.gpus = append(g.gpus, gpu)
		if nearest.Compare(g.distance) < 0 {
			g.distance = nearest
		}
	}
	slices.SortStableFunc(all, func(a, b *group) int { return a.distance.Compare(b.distance) })
	return all
}

// deal gives a group's GPUs the HCAs that serve none yet. If these are fewer, several GPUs share one.
func (g *group) deal() {
	free := slices.DeleteFunc(slices.Clone(g.adapters), func(a *adapter) bool { return len(a.gpus) > 0 })
	cards := map[string]int{} // by their order
	for _, a := range free {
		if _, seen := cards[a.card()]; !seen {
			cards[a.card()] = len(cards)
		}
	}
	for i, a := range free {
		switch {
		case len(cards) >= len(g.gpus):
			a.serve(g.gpus[cards[a.card()]*len(g.gpus)/len(cards)])
		case len(free) >= len(g.gpus):
			a.serve(g.gpus[i*len(g.gpus)/len(free)])
		}
	}
	if len(free) < len(g.gpus) {
		g.share()
	}
}

// share gives each of the group's GPUs one HCA, and each HCA as many GPUs as the others, as far as
// it goes: neighbors in Slurm's order, so that a job of consecutive GPUs has all GPUs of an HCA.
func (g *group) share() {
	order := slices.Clone(g.gpus)
	for _, a := range g.adapters {
		order = append(order, a.gpus...)
	}
	slices.Sort(order)
	order = slices.Compact(order)
	most := map[*adapter]int{}
	for _, a := range g.adapters {
		most[a] = len(a.gpus)
	}
	for range g.gpus {
		most[slices.MinFunc(g.adapters, func(a, b *adapter) int { return most[a] - most[b] })]++
	}
	for _, gpu := range g.gpus {
		at := slices.Index(order, gpu)
		slices.MinFunc(g.adapters, func(a, b *adapter) int {
			return cmp.Or(falseFirst(len(a.gpus) >= most[a], len(b.gpus) >= most[b]), a.gap(order, at)-b.gap(order, at))
		}).serve(gpu)
	}
}

// gap tells how far the GPU at a place in an order is from the nearest that the HCA serves. Of two as near, the one
// before counts. An HCA that serves none comes after one whose GPU is the next.
func (a *adapter) gap(order []int, at int) int {
	const step, none = 4, 6
	gap := none
	for i, gpu := range a.gpus {
		d := step * (at - slices.Index(order, gpu))
		if d < 0 {
			d = 1 - d
		}
		if i == 0 || d < gap {
			gap = d
		}
	}
	return gap
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (a *adapter) serve(gpu int) {
	a.gpus = append(a.gpus, gpu)
	slices.Sort(a.gpus)
}

// divide gives the parts of an HCA its GPUs: each GPU gets one part, and several share one if there
// are fewer parts.
func (a *adapter) divide(m Mapping) {
	for i, gpu := range a.gpus {
		e := &m[a.entries[i*min(len(a.entries), len(a.gpus))/len(a.gpus)]]
		e.GPUs = append(e.GPUs, gpu)
	}
}
