// Package seed deals tests their random numbers. GRESNET_SEED repeats a run: the tests that CI runs have one
// seed, so that a commit has one answer; all others have another one each time.
package seed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"
)

// Value is what the numbers follow from. Programs print it at their first number; go shows it where a test fails.
var Value = sync.OnceValue(func() uint64 {
	n := uint64(time.Now().UnixNano()) % 1e9
	if text := os.Getenv("GRESNET_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			panic(fmt.Errorf("GRESNET_SEED: %w", err))
		}
	}
	fmt.Printf("GRESNET_SEED=%d\n", n)
	return n
})

// Rand returns numbers that no other test takes from.
func Rand() *rand.Rand { return rand.New(rand.NewPCG(Value(), 0)) }

// source is what the functions of this package take numbers from; tests may run side by side.
type source struct {
	sync.Mutex
	pcg func() *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.Lock()
	defer s.Unlock()
	return s.pcg().Uint64()
}

var shared = rand.New(&source{pcg: sync.OnceValue(func() *rand.PCG { return rand.NewPCG(Value(), 1) })})

// IntN returns a number of [0, n).
func IntN(n int) int { return shared.IntN(n) }

// Shuffle puts n things into another order.
func Shuffle(n int, swap func(i, j int)) { shared.Shuffle(n, swap) }
