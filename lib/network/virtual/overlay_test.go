package virtual_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"gresnet/lib/network/virtual"
)

func TestNoTwoOverlaysHaveOneIndexAndNoneLooksLikeAnInterfacesOfTheNode(t *testing.T) {
	seen := map[int]uint32{}
	for _, job := range []uint32{1, 2, 3, 1<<15 - 1, 1 << 15, 1<<15 + 3, 1 << 16, 1<<16 + 3, 3 << 15, 1 << 23, 1<<24 - 1} {
		o := virtual.OverlayOf(job)
		if other, is := seen[o.Index]; is {
			t.Errorf("jobs %d and %d have index %d", job, other, o.Index)
		}
		seen[o.Index] = job
		if o.Index <= 0 || o.Index > 1<<31-1 || o.Index&virtual.UplinkBit == 0 {
			t.Errorf("job %d: index %#x", job, o.Index)
		}
		if short := o.Index & 0xffff; short < 1<<15 {
			t.Errorf("job %d: index %#x is %d to a program that keeps 16 bits", job, o.Index, short)
		}
	}
}

func TestTheNetworksOfAddressesHaveTheseAndNoOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		first, size := random.UintN(256), 1+random.UintN(64)
		var all []netip.Addr
		for n := range size {
			if random.UintN(4) > 0 {
				all = append(all, netip.AddrFrom4([4]byte{10, 9, byte((first + n) >> 8), byte(first + n)}))
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var got []netip.Addr
		networks := virtual.Networks(all)
		for i, n := range networks {
			for a := n.Addr(); n.Contains(a); a = a.Next() {
				got = append(got, a)
			}
			if i > 0 && networks[i-1].Bits() == n.Bits() && netip.PrefixFrom(n.Addr(), n.Bits()-1).Masked().Addr() == networks[i-1].Addr() {
				t.Fatalf("%v and %v are one network", networks[i-1], n)
			}
		}
		slices.SortFunc(all, netip.Addr.Compare)
		if !slices.Equal(got, all) {
			t.Fatalf("of %v: %v", all, networks)
		}
	}
}
