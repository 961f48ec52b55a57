package virtual

import (
	"testing"

	"github.com/vishvananda/netlink"
)

func TestAListThatTheKernelDidNotEndInPeaceIsAskedForAgain(t *testing.T) {
	asked := 0
	list, err := whole(func() ([]int, error) {
		if asked++; asked < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if asked != 3 || len(list) != 2 || err != nil {
		t.Errorf("asked %d times: %v, %v", asked, list, err)
	}
}
