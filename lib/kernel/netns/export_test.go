package netns

import (
	"testing"
	"time"
)

// SetLookTimeout sets for a test how long a search is at one process.
func SetLookTimeout(t *testing.T, most time.Duration) {
	was := lookTimeout
	lookTimeout = most
	t.Cleanup(func() { lookTimeout = was })
}
