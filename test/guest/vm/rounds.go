package vm

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns where the random tests begin; the one that failed replays the failure.
func Seed(t *testing.T) uint64 {
	t.Helper()
	if text := os.Getenv("GRESNET_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("GRESNET_SEED: %v", err)
		}
		return n
	}
	return uint64(time.Now().UnixNano()) % 1e9
}

// Rounds returns how often the short and the long tests do something.
func Rounds(short, long int) int {
	switch os.Getenv("GRESNET_TEST") {
	case "long", "all":
		return long
	}
	return short
}
