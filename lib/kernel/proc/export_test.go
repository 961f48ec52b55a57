package proc

import (
	"testing"
	"time"
)

// Links returns how many links of descriptors a look has read.
func Links(o *Openers) int { return o.links }

// SetLookTimeout bounds looks for a test.
func SetLookTimeout(t *testing.T, timeout time.Duration) {
	before := lookTimeout
	lookTimeout = timeout
	t.Cleanup(func() { lookTimeout = before })
}
