package virtual_test

import (
	"testing"

	"gresnet/lib/virtual"
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
