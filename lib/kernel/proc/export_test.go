package proc

import (
	"testing"
	"time"
)

// SetLookTimeout bounds looks for a test.
func SetLookTimeout(t *testing.T, timeout time.Duration) {
	before := lookTimeout
	lookTimeout = timeout
	t.Cleanup(func() { lookTimeout = before })
}
